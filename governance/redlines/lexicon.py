"""Words the red lines are drawn with: school subjects, illnesses, people, and what excuses them."""

from __future__ import annotations

SUBJECTS_ZH = (
    "语文|語文|數學|数学|英语|英語|外语|物理|化学|化學|生物|历史|歷史|地理|政治|体育|體育|美术|音乐|道法|道德与法治|科学|理综|文综"
    "|高数|高等数学|线代|线性代数|概率论|数据结构|操作系统|计算机网络|编译原理|离散数学|大学英语|专业课"
    "|四级|六级|雅思|托福|期末考?试?|期中考?试?|月考|模考|一模|二模|三模|小测|高考|中考|考研|国考"
)
SUBJECTS_EN = (
    r"math(?:s|ematics)?|algebra|calculus|geometry|statistics|physics|chemistry|biology|history|geography"
    r"|english|literature|spanish|french|chinese|economics|computer science|data structures|science|art|music"
)
EXAMS_EN = (
    r"finals?(?: exams?)?|midterms?(?: exams?)?|exams?|quiz(?:zes)?|tests?|papers?|essays?|assignments?|course"
    r"|homework|SAT|ACT|GRE|GMAT|LSAT|MCAT|TOEFL|IELTS"
)
NUMBER_ZH = r"(?:\d{1,3}(?:\.\d{1,2})?|[一二三四五六七八九]?百?零?[一二三四五六七八九]?十[一二三四五六七八九]?|一百|满|滿)"

PEOPLE_ZH = (
    "我|他|她|俺|本人|孩子|小孩|宝宝|儿子|女儿|兒子|女兒|妈妈|媽媽|爸爸|父亲|母亲|父母|老婆|老公|妻子|丈夫|爷爷|奶奶|外婆|外公"
    "|姥姥|姥爷|哥哥|姐姐|弟弟|妹妹|同学|同學|学生|學生|病人|患者|家人|朋友|同事|老师|老師|领导|邻居|室友|女友|男友|[张李王刘陈杨赵黄周吴]某"
)
PEOPLE_EN = (
    r"(?:i|i'm|i've|he|she|we|they|who|patient|(?:my|his|her|their|our)\s+(?:\w+\s+)?(?:son|daughter|child|kid"
    r"|mother|mom|mum|father|dad|wife|husband|partner|brother|sister|grandmother|grandfather|grandma|grandpa|aunt"
    r"|uncle|friend|boss|colleague|student|teacher|neighbou?r|roommate|girlfriend|boyfriend|cousin|baby|parents?))"
)

ILLNESSES_ZH = (
    "糖尿病|高血压|高血壓|高血脂|冠心病|心脏病|心臟病|心梗|心肌梗[死塞]|心绞痛|脑梗|脑出血|中风"
    "|(?:乳腺|前列腺|胰腺|甲状腺|宫颈|直肠|结肠|食管|食道|膀胱|卵巢|鼻咽|[肺肝胃肠腸肾腎脑骨喉血])癌|癌症?|肿瘤|腫瘤|白血病|淋巴瘤|骨髓瘤"
    "|抑郁症?|憂鬱症|焦虑症|双相(?:情感)?障碍|躁郁症|精神分裂症?|强迫症|自闭症|孤独症|多动症|厌食症|创伤后应激|艾滋病?|爱滋|HIV|梅毒|淋病"
    "|尖锐湿疣|疱疹|乙肝|丙肝|甲肝|肝炎|肝硬化|肺炎|肺结核|结核病?|哮喘|肾炎|肾衰竭?|尿毒症|痛风|甲亢|甲减|红斑狼疮|类风湿|帕金森"
    "|阿尔茨海默|老年痴呆|癫痫|羊癫疯|多发性硬化|渐冻症|地中海贫血|血友病|贫血|胃溃疡|胃炎|克罗恩病?|胰腺炎|胆结石|子宫肌瘤|卵巢囊肿"
    "|多囊卵巢|不孕不育|怀孕|懷孕|流产|性病|前列腺炎|银屑病|牛皮癣|白癜风|湿疹|青光眼|白内障|新冠|流感|甲流|水痘|带状疱疹|骨折|骨质疏松|椎间盘突出"
)
DRUGS_ZH = (
    "舍曲林|氟西汀|帕罗西汀|西酞普兰|文拉法辛|度洛西汀|安非他酮|碳酸锂|奥氮平|喹硫平|利培酮|阿立哌唑|阿普唑仑|劳拉西泮|二甲双胍|胰岛素"
    "|格列美脲|阿托伐他汀|氨氯地平|硝苯地平|缬沙坦|美托洛尔|阿司匹林|华法林|优甲乐|左甲状腺素|利他林|专注达|靶向药|化疗药|恩替卡韦|替诺福韦"
)
ILLNESSES_EN = (
    r"diabet(?:es|ic)|hypertension|high blood pressure|heart (?:disease|failure|attack)|stroke|cancers?|tumou?rs?"
    r"|lymphoma|leuka?emia|melanoma|carcinoma|myeloma|depression|anxiety disorder|bipolar(?: disorder)?"
    r"|schizophreni[ac]|ocd|ptsd|adhd|autis(?:m|tic)|anorexia|bulimia|hiv|aids|syphilis|gonorrh?o?ea|chlamydia"
    r"|herpes|hepatitis(?: [abc])?|cirrhosis|tuberculosis|pneumonia|asthma|copd|kidney (?:disease|failure)|gout"
    r"|lupus|arthritis|parkinson'?s|alzheimer'?s|dementia|epilepsy|multiple sclerosis|crohn'?s|ulcerative colitis"
    r"|cystic fibrosis|ha?emophilia|an(?:a)?emia|psoriasis|eczema|endometriosis|miscarriage|infertility|pregnan(?:t|cy)|covid(?:-19)?"
    r"|glaucoma|migraines?|sclerosis|sickle cell"
)
DRUGS_EN = (
    r"sertraline|fluoxetine|prozac|zoloft|escitalopram|lexapro|lithium|quetiapine|olanzapine|risperidone|xanax"
    r"|alprazolam|lorazepam|adderall|ritalin|methylphenidate|metformin|insulin|ozempic|semaglutide|statins?|warfarin"
    r"|levothyroxine|chemo(?:therapy)?|antidepressants?|antiretrovirals?|dialysis"
)

# Work about an illness or an exam is no statement about a person.
WORK_ZH = (
    r"标准|標準|指南|系统|系統|项目|項目|文档|文檔|需求|代码|代碼|论文|論文|研究|早筛|科普|数据集|模型|定义|测试|測試|课题|综述|病例库"
    r"|平台|软件|算法|问卷|讲座|教材|知识点|题目|试题|考点|保险产品|接口|仓库|课件|翻译"
)
WORK_EN = (
    r"projects?|guidelines?|systems?|repo(?:sitory)?|stud(?:y|ies)|papers?|datasets?|apps?|models?|research|code"
    r"|documentation|docs|pipelines?|platforms?|software|essays?|articles?|thes[ie]s|lectures?|charity|fundraiser"
    r"|survey|screening|clinic|foundation|awareness|walk|textbooks?"
)
