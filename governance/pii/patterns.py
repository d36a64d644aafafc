r"""What personal numbers and names look like; checks.py decides which of them count.

Every pattern is re2 and runs on a folded copy. The group `v` is the value (the whole match if
absent). re2 looks at no neighbours, so the edges of numbers are checked afterwards.

Source: GB 11643 (ID cards), GB 32100 (company codes), GA 36 (plates), ISO 13616 (IBAN), ISO/IEC 7812
(cards), E.164 and the North American numbering plan (telephones).
"""

from __future__ import annotations

from typing import Final

from memory.sanitize.patterns import PatternBook

_PROVINCES: Final = "京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼"
_REGIONS: Final = (
    "(?:北京|天津|上海|重庆|河北|山西|辽宁|吉林|黑龙江|江苏|浙江|安徽|福建|江西|山东|河南|湖北|湖南"
    "|广东|海南|四川|贵州|云南|陕西|甘肃|青海|台湾|内蒙古|广西|西藏|宁夏|新疆|香港|澳门)"
)
_STREETS_EN: Final = r"(?:Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Court|Ct|Way|Place|Pl|Terrace)"
_SAYS: Final = r"[\s:=#是为為/()\[\]\"'，]{0,4}"
_IM_ZH: Final = r"(?:微信|薇信|威信|v信|vx|wechat|weixin)\s?(?:号码|号|账号|帐号|id[\s:=是为])?"
_IM_EN: Final = r"(?:telegram|tg|skype|discord|line|kakaotalk|whatsapp|signal|snapchat|instagram|ig|twitter|钉钉|抖音|微博|小红书)"
_SEPARATED: Final = r"[ \-.·]"

BOOK: Final = PatternBook(
    {
        # 12 to 19 digits, in groups or not, perhaps with the X of an ID card: card or ID card.
        "digits": r"\d(?:[ \-.]{0,2}\d){11,21}(?:[ \-.]{0,2}[xX])?",
        "passport": (
            r"(?i)(?:护\s?照|護\s?照|passport|通行[证證]|台胞[证證])[^\d\n。;]{0,14}?"
            r"(?P<v>[a-z]{1,2}[ \-]?\d{6,8}|\d{9})"
        ),
        "passport_before": (
            r"(?i)(?P<v>[a-z]{1,2}\d{7,8})\s?(?:是|为)?[^\d\n。;,a-z]{0,4}(?:护\s?照|護\s?照|passport|通行证)"
        ),
        "ssn": r"\d{3}[\-–. ]\d{2}[\-–. ]\d{4}",
        "ssn_named": r"(?i)(?:\bssn|social security)[^\d\n]{0,20}(?P<v>\d{3}[\-–. ]?\d{2}[\-–. ]?\d{4})",
        "iban": r"(?i)[a-z]{2}\d{2}(?:[ \-]?[a-z0-9]{2,4}){3,8}(?:[ \-]?[a-z0-9]{1,3})?",
        "company_code": (
            r"(?i)[1-9any][0-9a-hj-npqrtuwxy][ \-]?\d{6}[ \-]?[0-9a-hj-npqrtuwxy]{9}[ \-]?[0-9a-hj-npqrtuwxy]"
        ),
        "medical_card": (
            r"(?i)(?:医保|醫保|社保|社会保障|诊疗|就诊|medicare|medicaid|health insurance)[^\d\n。;a-z]{0,10}?"
            r"(?:卡|号|號|no\.?|number|id|is|card|[ :#])+\s?(?P<v>[a-z]{0,3}[ \-]?\d[\da-z\-]{6,18})"
        ),
        "email": r"[A-Za-z0-9._%+\-]{1,64}@(?:[A-Za-z0-9\-]{1,63}\.){1,6}[A-Za-z]{2,24}",
        "email_spoken": (
            r"(?i)(?P<who>[a-z0-9][a-z0-9._+\-]{1,63})\s{0,2}"
            r"(?:@|\(at\)|\[at\]|\{at\}|<at>|\sat\s|艾特|\s@\s)\s{0,2}(?P<where>[a-z0-9][a-z0-9\-]{1,62})\s{0,2}"
            r"(?P<dot>\(dot\)|\[dot\]|\{dot\}|<dot>|\sdot\s|点|\s\.\s)\s{0,2}(?P<top>(?:com|net|org|cn|io|edu|gov|hk|tw|uk|de|fr|co|me|info|us)\b)"
        ),
        "mobile_cn": r"(?:(?:\+|00)?\(?86\)?[ \-]{0,2})?1[ \-]{0,2}[3-9](?:[ \-]{0,2}\d){9}",
        "landline_cn": (
            r"(?:\(?(?:\+|00)86\)?[ \-]?)?\(?0?(?:10|2\d|[3-9]\d{2})\)?[ \-]{1,2}[2-9]\d{2,3}[ \-]?\d{4}"
            r"(?:\s?(?:-|转|轉|ext\.?|x)\s?\d{1,6})?"
        ),
        "landline_joined": r"0(?:10|2\d|[3-9]\d{2})[2-9]\d{6,7}",
        "hong_kong": r"(?:\+|00)?\(?(?:852|853)\)?[ \-]?[2-9]\d{3}[ \-]?\d{4}",
        "taiwan": r"09\d{2}[ \-]\d{3}[ \-]\d{3}",
        "north_america": (
            r"(?i)(?:(?:\+|00)?1[ \-.]{0,2})?(?:\([2-9]\d{2}\)[ \-.]{0,2}|[2-9]\d{2}[\-.]|[2-9]\d{2} )\d{3}[\-. ]\d{4}"
            r"(?:\s?(?:x|ext\.?)\s?\d{1,6})?"
        ),
        "french": r"0[1-9](?:[. ]\d{2}){4}",
        "international": r"(?i)\+\d{1,3}[ \-.()]{0,2}(?:\d[ \-.()/]{0,3}){6,12}\d(?:\s?(?:x|ext\.?)\s?\d{1,6})?",
        "phone_named": (
            r"(?i)(?:\b(?:tele)?phone|\btel|\bmobile|\bcell|\bfax|\bdesk|\bwhatsapp|\b(?:call|ring|dial|text|reach) (?:me |us |him |her |them )?(?:on|at)"
            r"|电话|電話|手机|手機|座机|传真|致电|拨打|热线|客服|联系方式|聯絡)"
            r"[^\d\n。;]{0,12}?\n?(?P<v>[+(]?\d(?:[ \-.()/]{0,2}\d){6,14}(?:\s?(?:x|ext\.?|转)\s?\d{1,6})?)"
        ),
        "phone_labelled": (
            r"(?i)(?P<v>[+(]?\d(?:[ \-.()/]{0,2}\d){6,14}(?:\s?(?:x|ext\.?)\s?\d{1,6})?)"
            r"\s?[\-(]?\s?(?:office|fax|mobile|cell|home|work|desk|phone|direct)\)?\s{0,2}(?:$|[\n,;|)\\/.])"
        ),
        "plate": (
            rf"(?P<place>[{_PROVINCES}])\s?[A-HJ-Z](?P<dot>[·•‧・. \-]?)"
            r"(?:[A-HJ-NP-Z0-9]{5,6}|[A-HJ-NP-Z0-9]{4}[挂学警港澳领])"
        ),
        "wechat": rf"(?i)(?:^|[^a-z0-9_]){_IM_ZH}(?P<says>{_SAYS})(?P<v>[a-z][a-z0-9_\-]{{5,19}})",
        "wxid": r"wxid_[a-z0-9]{10,24}",
        "qq": rf"(?i)(?:\bqq|扣扣|企鹅)\s?(?:号码|号|群号|群|帐号|账号)?{_SAYS}(?P<v>[1-9]\d{{4,10}})",
        "im_named": (
            rf"(?i)(?:{_IM_EN})\s?(?:id|handle|号|账号|账户|user(?:name)?)?{_SAYS}(?:is\s)?"
            r"(?P<v>@[a-z][a-z0-9_.]{3,31}|live:[a-z0-9._]{3,40})"
        ),
        "address_zh": (
            rf"{_REGIONS}(?:省|市|壮族自治区|回族自治区|维吾尔自治区|自治区)?[\p{{Han}}]{{0,12}}?(?:市|区|县|旗|镇|乡)[\p{{Han}}]{{1,16}}?"
            r"(?:路|街|大道|道|巷|弄|胡同|村|里)[\p{Han}\d]{0,6}?[A-Za-z\d一二三四五六七八九十百]{1,5}\s?(?:号|弄|栋|幢|座|单元|室)"
            r"(?:[\p{Han}]{0,4}?[A-Za-z\d\-]{1,5}\s?(?:号楼|号|栋|幢|座|单元|室|楼|层)){0,4}(?:\s\d{6})?"
        ),
        "address_en": (
            rf"\d{{1,6}}\s(?:[A-Z][\w'.]{{1,20}}\s){{1,4}}{_STREETS_EN}\b\.?"
            r"(?:,?\s{1,2}(?:Apt|Suite|Unit|Ste|#)\.?\s?\w{1,6})?,?\s{1,2}(?:[A-Z][\w'.]{1,20},?\s){1,3}[A-Z]{2}\s\d{5}(?:-\d{4})?"
        ),
    }
)
