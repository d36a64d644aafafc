"""Texts made by program (Chinese, English, mixed, code, JSON) and providers that count them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from random import Random

from memory.tokens.encodings import load_encoding

Messages = list[tuple[str, str]]
Counter = Callable[[Messages], int]

ZH = (
    "今天 明天 会议 数据 结构 期末 试卷 老师 学生 选择题 综合 实际 部署 订单 超时 服务 接口 报告 预算 合同"
    " 客户 退款 物流 仓库 供应商 发票 银行 审批 日程 提醒 天气 航班 酒店 行程 医生 药物 过敏 症状 复查 睡眠"
    " 跑步 游泳 咖啡 火锅 饺子 蔬菜 牛奶 猫咪 小狗 孩子 幼儿园 钢琴 作业 数学 物理 历史 小说 电影 音乐 朋友"
    " 生日 礼物 旅行 搬家 装修 房租 贷款 工资 面试 简历 项目 进度 风险 测试 缺陷 版本 上线 回滚 日志 监控"
    " 我们 他们 觉得 希望 需要 因为 所以 但是 如果 已经 还没有 可以 不要 一起 最近 非常 有点 比较 马上 终于"
    " 记得 忘记 喜欢 讨厌 担心 高兴 生气 安排 讨论 决定 完成 推迟 取消 修改 检查 发送 整理 总结 学习 练习"
    " 梧桐 斑斓 踌躇 氤氲 缱绻 蹒跚 麒麟 鹌鹑 榴莲 枇杷 徘徊 窈窕 的 的 的 了 了 是 在 和 也 就 都 把 给 对"
).split()
EN = (
    "the the the a a of of to to and and in is it that for on with as was are be this have from or"
    " we they you I not but had by what when there can which their time will about if up out many"
    " meeting deadline invoice customer refund warehouse shipment contract budget report schedule"
    " reminder flight hotel itinerary doctor allergy medication symptom appointment running coffee"
    " dumplings vegetables kindergarten piano homework physics novel birthday present mortgage salary"
    " interview progress risk regression deployment rollback monitoring latency throughput database"
    " remember forgot prefer dislike worried happy angry arrange discuss decide finish postpone cancel"
    " photosynthesis entrepreneurship idiosyncratic Schwarzwald quinoa zeitgeist onomatopoeia Kubernetes"
    " beautiful terrible yesterday tomorrow sometimes already together recently finally really quite"
).split()
NAMES = (
    "order total row price count user_id created_at timeout retry payload session token item index"
    " getValue parseDate httpClient max_tokens is_valid self result buffer offset cfg ctx kwargs"
).split()


def chinese(random: Random) -> str:
    """Return some sentences."""
    sentences = []
    for _ in range(random.randint(1, 6)):
        words = random.choices(ZH, k=random.randint(4, 16))
        words.insert(len(words) // 2, random.choice(["，", "，", "、", "；", ""]))
        sentences.append("".join(words) + random.choice("。。。！？"))
    return "".join(sentences)


def english(random: Random) -> str:
    """Return some sentences."""
    sentences = []
    for _ in range(random.randint(1, 6)):
        words = random.choices(EN, k=random.randint(5, 22))
        words.insert(len(words) // 2, random.choice([",", "", "", f" {random.randint(1, 5000)}"]))
        sentences.append(" ".join(words).replace(" ,", ",").capitalize() + random.choice("..?!"))
    return " ".join(sentences)


def mixed(random: Random) -> str:
    """Return Chinese with English names, numbers and addresses in it."""
    parts = []
    for _ in range(random.randint(2, 6)):
        parts.append("".join(random.choices(ZH, k=random.randint(2, 8))))
        parts.append(
            random.choice(
                [
                    f" {random.choice(EN)} {random.choice(EN)} ",
                    f" `{random.choice(NAMES)}={random.randint(0, 99999)}` ",
                    f"{random.randint(1900, 2100)}年{random.randint(1, 12)}月",
                    f" 1{random.randint(10**9, 10**10 - 1)}，",
                    f" https://example.org/{random.choice(NAMES)}/{random.randint(1, 999)} ",
                ]
            )
        )
    return "".join(parts) + random.choice("。！\n")


def code(random: Random) -> str:
    """Return a few functions of Python or JavaScript."""
    a, b, c = random.sample(NAMES, 3)
    lines = []
    for _ in range(random.randint(1, 4)):
        n = random.randint(0, 4096)
        if random.random() < 0.6:
            lines += [f"def {a}_{b}({c}: list[int], *, {b}: str = '{n}') -> dict[str, int]:"]
            lines += [f"    for {a} in {c}:", f"        if {a}.{b} >= {n} and not {c}[{a}]:"]
            lines += [f"            raise ValueError(f'{{{a}!r}} {random.choice(EN)}')"]
            lines += [f"    return {{{b}: len({c}) + {n}}}  # {random.choice(EN)}", ""]
        else:
            lines += [f"export async function {a}({b}, {c} = {n}) {{"]
            lines += [f"\tconst {{ {a}, ...rest }} = await {b}.{c}(`/{a}/${{{c}}}`);"]
            lines += [f"\treturn rest?.{c}?.map((x) => x * {n} - 0x{n:x});", "}", ""]
    return "\n".join(lines)


def as_json(random: Random) -> str:
    """Return records as JSON, compact or indented, sometimes escaped."""
    rows = [
        {
            "id": f"{random.getrandbits(64):x}",
            random.choice(NAMES): random.randint(0, 10**6),
            random.choice(NAMES): round(random.random() * 100, 2),
            "title": "".join(random.choices(ZH, k=3)),
            "text": " ".join(random.choices(EN, k=6)),
            "tags": random.choices(NAMES, k=2),
            "ok": random.random() < 0.5,
        }
        for _ in range(random.randint(1, 4))
    ]
    is_escaped = random.random() < 0.1
    return json.dumps(rows, ensure_ascii=is_escaped, indent=random.choice([None, 2]))


KINDS: dict[str, Callable[[Random], str]] = {
    "Chinese": chinese,
    "English": english,
    "mixed": mixed,
    "code": code,
    "JSON": as_json,
}


def prompt(random: Random) -> Messages:
    """Return a request of 4 to 40 messages, each prompt with its own leaning to some kinds."""
    leaning = [random.random() ** 2 for _ in KINDS]
    makers = random.choices(list(KINDS.values()), leaning, k=random.randint(4, 40))
    roles = ("user", "assistant")
    return [("system", english(random))] + [
        (roles[index % 2], make(random)) for index, make in enumerate(makers)
    ]


_ONE_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_WORD = re.compile(r"\w+")


def _by(count: Callable[[str], float], *, message: float = 0, request: float = 0) -> Counter:
    """Return the counter of a whole request from that of one text."""
    return lambda messages: round(sum(count(text) + message for _, text in messages) + request)


def _tokens(name: str) -> Callable[[str], int]:
    return lambda text: len(load_encoding(name).encode_ordinary(text))


def _single_digits(text: str) -> int:
    digits = sum(map(str.isdigit, text))
    return (
        _tokens("cl100k_base")(re.sub(r"\d+", "a", text)) + digits - len(re.findall(r"\d+", text))
    )


def _byte_heavy(text: str) -> float:
    """A vocabulary of English: other characters fall apart into most of their bytes."""
    cjk = "".join(_ONE_CJK.findall(text))
    worse = sum(2 + (ord(character) % 3 == 0) for character in cjk)
    return _tokens("cl100k_base")(_ONE_CJK.sub(" ", text)) * 1.1 + worse


COUNTERS: dict[str, Counter] = {
    "o200k + 4 a message + 3": _by(_tokens("o200k_base"), message=4, request=3),
    "cl100k + 4 a message + 3": _by(_tokens("cl100k_base"), message=4, request=3),
    "1.37 × cl100k + 12 a message + 30": _by(
        lambda text: 1.37 * _tokens("cl100k_base")(text), message=12, request=30
    ),
    "characters / 3.5": _by(lambda text: len(text) / 3.5),
    "1 a CJK character, 1.3 a word": _by(
        lambda text: len(_ONE_CJK.findall(text)) + 1.3 * len(_WORD.findall(_ONE_CJK.sub(" ", text)))
    ),
    "bytes / 3": _by(lambda text: len(text.encode()) / 3, message=5),
    "2 to 3 a CJK character": _by(_byte_heavy, message=6, request=12),
    "cl100k, digits singly": _by(_single_digits, message=5, request=20),
}
