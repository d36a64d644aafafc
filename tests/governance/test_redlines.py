"""The red lines: what memory must not keep is found and masked, what only looks like it stays."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governance.redlines import PLACEHOLDERS, find_redlines, mask_redlines
from memory.compression.summary import summary_messages
from memory.language import Language
from memory.sanitize import sanitize

ID_NUMBER = "11010519491231" + "002X"

BEYOND = {
    # identity; checksums made right or wrong on purpose
    f"我的号码 {ID_NUMBER}": "identity",
    f"客户廖小红（{ID_NUMBER}）投诉": "identity",
    f"号{ID_NUMBER.lower()}。": "identity",
    "110105 19491231 002X": "identity",
    "110105-19491231-002X": "identity",
    "身份证号是11010519491231" + "0021": "identity",
    "身份证：" + "".join(chr(ord(digit) + 0xFEE0) for digit in ID_NUMBER): "identity",
    "身份证 110105491231002": "identity",
    "护照号 E12345678": "identity",
    "passport no. is AB1234567": "identity",
    "My SSN is 078-05-1120": "identity",
    "social security number 078051120": "identity",
    "医保卡号 A123456789": "identity",
    "驾照号码：B123456789012": "identity",
    "卡号 4111 1111 1111 1111": "identity",
    "my card 4111111111111111": "identity",
    "银行卡4111-1111-1111-1111": "identity",
    "卡 ４１１１ １１１１ １１１１ １１１１": "identity",
    # grades
    "数学 95分": "grades",
    "数学：95": "grades",
    "95/100": "grades",
    "考了九十五分": "grades",
    "她考了95": "grades",
    "A+": "grades",
    "排名第3": "grades",
    "数学考了95分，选择题全对": "grades",
    "期末成绩：英语 72": "grades",
    "学号 2023 张同学 物理 59 分不及格": "grades",
    "他的成绩排名倒数第三": "grades",
    "班里第三名": "grades",
    "年级第5": "grades",
    "高考考了 612 分": "grades",
    "雅思考了7.5": "grades",
    "他物理不及格": "grades",
    "語文：８８分": "grades",
    "scored 95 in math": "grades",
    "I scored 92% on the final exam": "grades",
    "grade: A-": "grades",
    "she got an A in physics": "grades",
    "My GPA is 3.2 this term": "grades",
    "his SAT score was 1450": "grades",
    "Math: 95": "grades",
    "ranked 3rd in her class": "grades",
    # health
    "她被确诊为二型糖尿病": "health",
    "我有高血压，每天吃药": "health",
    "他是糖尿病患者": "health",
    "上周查出乳腺癌晚期": "health",
    "HIV 检测阳性": "health",
    "HIV+": "health",
    "他得了抑郁症在吃舍曲林": "health",
    "体检报告：HbA1c 9.2": "health",
    "我的血压 150/95": "health",
    "I was diagnosed with bipolar disorder": "health",
    "My son has type 1 diabetes": "health",
    "Patient has stage 2 lymphoma": "health",
    "I'm on sertraline for depression": "health",
    "He tested positive for HIV": "health",
    "because of my asthma": "health",
}

WITHIN = [
    "等了95分钟",
    "考察了 95 分位延迟",
    "豆瓣评分8.5分",
    "会议定在 3 点 15 分",
    "给这份文档打 90 分吧，还差排版",
    "数学试卷满分100分，考试时间 120 分钟",
    "出一份数据结构期末试卷，选择题30分，简答题40分",
    "总分 100 分，选择题 40 分",
    "历史第3章，物理 3 班，数学 10 道题",
    "三年级第5课",
    "搜索排名第3，销量排名第一",
    "A+ 轮融资，C++ 和 B-tree",
    "测试通过 95/100",
    "progress 95/100",
    "the test suite passed 95 of 100",
    "Score the candidates from 1 to 5",
    "The API latency p95 is 92 ms",
    "we got 12 on the test server",
    "GPA 计算器的单元测试",
    "糖尿病的诊断标准是空腹血糖≥7.0 这一条写进指南",
    "确诊标准与糖尿病",
    "高血压患者管理系统的需求文档",
    "癌症早筛项目的代码仓库",
    "我在写一篇糖尿病论文",
    "这台服务器健康状况良好",
    "He leads a diabetes project",
    "my cancer research paper",
    "diagnose the network problem",
    "身份证号码的校验规则是 ISO 7064",
    "把身份证上传功能做完",
    "订单号 2026113000012345 已发货",
    "order 4111111111111111 shipped",
    "号码 11010519491231" + "0021",
    "my card 4111111111111112",
    "电话 13800138000，座机 010-62770334",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "uuid 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "发布日期改到 2026-09-02 12:30",
    "我喜欢喝绿茶，他住在杭州西湖区",
]


@pytest.mark.req("A21")
@pytest.mark.parametrize(("text", "kind"), BEYOND.items(), ids=BEYOND.keys())
def test_find_redlines_in_a_forbidden_statement_names_its_kind(text: str, kind: str) -> None:
    """Attack cases 97 and 98."""
    assert kind in {redline.kind for redline in find_redlines(text)}


@pytest.mark.parametrize("text", WITHIN)
def test_find_redlines_in_look_alikes_finds_nothing(text: str) -> None:
    """Attack case 100, and wrong checksums."""
    assert find_redlines(text) == ()


@pytest.mark.req("A16")
@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("小明数学考了95分，英语 88 分。", "小明(涉及学生成绩，略)，(涉及学生成绩，略)。"),
        (f"😀客户（{ID_NUMBER}）投诉", "😀客户（(涉及身份证件，略)）投诉"),
        ("她说我有高血压，周五开会", "(涉及健康信息，略)，周五开会"),
    ],
)
def test_mask_redlines_in_chinese_puts_the_placeholder_of_the_seed(text: str, masked: str) -> None:
    assert mask_redlines(text, language="zh").text == masked


@pytest.mark.parametrize(
    ("text", "masked", "kinds"),
    [
        ("Bo scored 95 in math.", "Bo (grades omitted).", ("grades",)),
        ("SSN 078-05-1120 ok", "SSN (identity number omitted) ok", ("identity",)),
        ("Today my son has asthma.", "Today (health information omitted).", ("health",)),
        ("Nothing here.", "Nothing here.", ()),
    ],
)
def test_mask_redlines_in_english_keeps_the_rest(
    text: str, masked: str, kinds: tuple[str, ...]
) -> None:
    result = mask_redlines(text, language="en")
    assert result.text == masked
    assert result.kinds == kinds


@given(
    pieces=st.lists(
        st.one_of(st.sampled_from([*BEYOND, *WITHIN]), st.text(max_size=10)), max_size=5
    ),
    glue=st.sampled_from(["", "，", "。", "\n", " "]),
    language=st.sampled_from(["zh", "en"]),
)
def test_mask_redlines_of_anything_leaves_none_in_the_end(
    pieces: list[str], glue: str, language: Language
) -> None:
    text = glue.join(pieces)
    redlines = find_redlines(text)
    assert all(0 <= redline.start < redline.end <= len(text) for redline in redlines)
    assert all(one.end <= two.start for one, two in pairwise(redlines))
    masked = mask_redlines(text, language=language)
    assert bool(masked.kinds) == bool(redlines)
    assert find_redlines(masked.text) == ()


@pytest.mark.parametrize("language", ["zh", "en"])
def test_placeholders_are_harmless_and_the_ones_the_prompt_names(language: Language) -> None:
    system_text, _ = summary_messages(previous="", turns=[], language=language, max_tokens=600)
    for placeholder in PLACEHOLDERS[language].values():
        assert placeholder in system_text
        assert find_redlines(placeholder) == ()
        assert sanitize(placeholder).text == placeholder
