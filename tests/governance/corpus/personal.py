"""A labelled corpus of what is personal and what only looks like it, in Chinese and English.

Numbers are made at run time with their checksums, so that no line of this file is anybody's. A text
is a frame around one value; the value's place is its label.
"""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stdnum import luhn
from stdnum.iso7064 import mod_11_2, mod_97_10

SEED = 5
EACH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A text, the kind of what is in it ("" for a look-alike), and where that stands."""

    text: str
    kind: str = ""
    start: int = 0
    end: int = 0


class Maker:
    """Makes values of every kind, by one seed."""

    def __init__(self, seed: int) -> None:
        """Begin the sequence of `seed`."""
        self._random = random.Random(seed)

    def digits(self, count: int, first: str = string.digits) -> str:
        """Return that many digits, the first one of `first`."""
        rest = "".join(self._random.choice(string.digits) for _ in range(count - 1))
        return self._random.choice(first) + rest

    def word(self, count: int) -> str:
        """Return that many small letters."""
        return "".join(self._random.choice(string.ascii_lowercase) for _ in range(count))

    def id_card(self) -> str:
        """Return an ID number of 18 characters."""
        place = self._random.choice(["110105", "310104", "440305", "500112", "650102"])
        born = f"{self._random.randint(1950, 2009)}{self._random.randint(1, 12):02}"
        body = f"{place}{born}{self._random.randint(1, 28):02}{self.digits(3)}"
        return body + mod_11_2.calc_check_digit(body)

    def card(self) -> str:
        """Return a card number in one of its usual lengths."""
        head, length = self._random.choice(
            [("6222", 19), ("6217", 16), ("4", 16), ("52", 16), ("37", 15)]
        )
        body = head + self.digits(length - len(head) - 1)
        return body + luhn.calc_check_digit(body)

    def grouped_card(self) -> str:
        """Return a card number in groups of four."""
        number = self.card()
        return " ".join(number[at : at + 4] for at in range(0, len(number), 4))

    def iban(self) -> str:
        """Return a British account number."""
        body = f"{self.word(4).upper()}{self.digits(14)}"
        return f"GB{mod_97_10.calc_check_digits(body + 'GB')}{body}"

    def company(self) -> str:
        """Return a company code, its checksum as it falls."""
        return f"91{self.digits(6, '123456')}MA{self.digits(7)}X"

    def mobile(self) -> str:
        """Return a Chinese mobile number, in groups or not."""
        number = f"1{self._random.choice('3456789')}{self.digits(9)}"
        cut = self._random.choice(["", "", "-", " "])
        return cut.join((number[:3], number[3:7], number[7:]))

    def landline(self) -> str:
        """Return a Chinese landline number."""
        return f"{self._random.choice(['010', '021', '0755', '0571'])}-{self.digits(8, '23456789')}"

    def abroad(self) -> str:
        """Return a telephone number of another country."""
        return self._random.choice(
            [
                f"+1-{self.digits(3, '23456789')}-{self.digits(3, '23456789')}-{self.digits(4)}",
                f"({self.digits(3, '23456789')}) {self.digits(3, '23456789')}-{self.digits(4)}",
                f"+852 {self.digits(4, '569')} {self.digits(4)}",
                f"+44 20 {self.digits(4, '378')} {self.digits(4)}",
            ]
        )

    def email(self) -> str:
        """Return an e-mail address."""
        return f"{self.word(6)}{self.digits(2)}@{self.word(5)}.{self._random.choice(['com', 'org', 'cn'])}"

    def plate(self) -> str:
        """Return a number plate, of a car or of an electric one."""
        place = self._random.choice("京沪粤苏浙鄂陕")
        dot = self._random.choice(["", "·"])
        return f"{place}{self._random.choice('ABCDE')}{dot}{self._random.choice(['', 'D'])}{self.digits(5)}"

    def passport(self) -> str:
        """Return a Chinese passport number."""
        return self._random.choice("EGP") + self.digits(8)

    def ssn(self) -> str:
        """Return a social security number."""
        return f"{self.digits(3, '1234578')}-{self.digits(2, '123')}-{self.digits(4, '123')}"

    def handle(self) -> str:
        """Return a messenger's name."""
        return f"{self.word(5)}_{self.digits(3)}"


FRAMES: dict[str, tuple[Callable[[Maker], str], tuple[str, ...]]] = {
    "id_card": (
        Maker.id_card,
        (
            "我的身份证号是{}。",
            "住客({})已入住",
            "ID number: {}",
            "办证用的{}别外传",
            "😀😀 身份证{}",
        ),
    ),
    "bank_card": (
        Maker.card,
        ("银行卡{},户名不变", "my card {} was declined", "工资打到卡号{}", "card number: {}."),
    ),
    "bank_card grouped": (Maker.grouped_card, ("卡号是{},别告诉别人", "Charge the card {} today")),
    "iban": (Maker.iban, ("My IBAN is {}", "汇到{}这个账户", "wire it to {}, please")),
    "company_code": (Maker.company, ("统一社会信用代码{}", "开票税号:{},抬头不变")),
    "phone": (
        Maker.mobile,
        ("手机{}随时打", "刚换了号,{}这个能打通", "call me on {} after six", "👨‍👩‍👧 我的电话是{}"),
    ),
    "phone landline": (Maker.landline, ("座机{},前台接", "公司电话 {} 转前台", "office line {}")),
    "phone abroad": (Maker.abroad, ("My number is {}", "reach me at {} tonight", "香港那边打{}")),
    "email": (Maker.email, ("邮箱{},别发错了", "write to {} please", "我的是{}。")),
    "plate": (Maker.plate, ("车牌{}停在B2", "司机开的是{}", "plate {}")),
    "passport": (Maker.passport, ("护照{}下个月到期", "passport no. {}", "护照号码:{}")),
    "ssn": (Maker.ssn, ("My SSN is {}", "social security number {}")),
    "im_handle": (Maker.handle, ("加我微信{}", "微信号:{}", "WeChat: {}", "telegram @{}")),
}

# Harmless, however much it looks like something: attack case 100, and more of the kind.
LOOK_ALIKES = (
    "订单号 2026113000012345 已发货",
    "运单 13912345678 到了",
    "order 4111111111111111 shipped",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "uuid 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "版本 1.2.3.4 发布了",
    "版本号 13812345 发布了",
    "2026-11-30 12:00:00 开会",
    "created at 1733000000000",
    "IP 192.168.100.200",
    "π=3.14159265358979323",
    "价格 12,345,678.90 元",
    "ratio 16:9, 1920x1080",
    "ISBN 978-7-111-12345-6",
    "编号 E1234567 只有七位数字",
    "我有 3 张银行卡",
    "meet me at li.wei",
    "look at example dot com",
    "user@2x.png",
    "git@github.com:org/repo.git",
    "@app.route('/')",
    "新AUTUMN款上市",
    "云API2024 的文档",
    "微信小程序 developer 文档",
    "QQ音乐真好听",
    "a + b @ c",
    "身份证号码的校验规则是 ISO 7064",
    "My credit card balance, please",
    "one two three testing",
    "百分之五十 50% of it, 20% off",
    "1 500 000 office workers",
    "0.13800138000",
    "the year 1990, 2000 and 2010",
)


def samples(seed: int = SEED) -> Iterator[Sample]:
    """Yield the corpus: every frame with values of its kind, then the look-alikes."""
    maker = Maker(seed)
    for name, (make, frames) in FRAMES.items():
        for number in range(EACH * len(frames)):
            before, after = frames[number % len(frames)].split("{}")
            value = make(maker)
            yield Sample(
                text=before + value + after,
                kind=name.split()[0],
                start=len(before),
                end=len(before) + len(value),
            )
    for text in LOOK_ALIKES:
        yield Sample(text=text)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# Attack cases 91 to 107 and the evasions that rules of this kind are known to miss, composed so
# that no literal is a secret: name, text. Names, birthdays and IP addresses are the honest limit.
EVASIONS: dict[str, str] = {
    "zero width in a phone": "138\u200b0013\u200b8000",
    "zero width in a token": "gh\u200bp" + "_" + "a1B2" * 9,
    "full-width e-mail": "ｎａｍｅ＠ｅｘａｍｐｌｅ．ｃｏｍ",
    "enclosed digits": "①③⑧⓪⓪①③⑧⓪⓪⓪",
    "small x in an ID": "11010519491231002x",
    "key over a line break": "sk" + "-proj-Ab12Cd34Ef56Gh78\nIj90Kl12Mn34Op56Qr78St90Uv12",
    "phone over a line break": "电话138001\n38000",
    "ID with spaces": "110105 19491231 002X",
    "ID with dashes": "110105-19491231-002X",
    "ID of 15 digits": "110105491231002",
    "numerals in Chinese": "我的电话是一三八零零一三八零零零",
    "numerals in English": "one three eight zero zero one three eight zero zero zero",
    "at and dot": "name at example dot com",
    "percent": "name%40example.com",
    "HTML entity": "name&#64;example.com",
    "JSON escapes": "".join(f"\\u00{ord(one):x}" for one in "13800138000"),
    "base64 phone": _base64("13800138000"),
    "base64 password": _base64("password: hunter2Xy9"),
    "percent password": "password%3A%20hunter2Xy9",
    "Cyrillic bearer": "B\u0435arer " + "aB3d" * 8,
    "bare sid": "sid=a8f3k2l9d0s7",
    "landline": "010-62345678",
    "Hong Kong": "+852 9123 4567",
    "United States": "(212) 555-0123",
    "passport": "护照 E12345678",
    "address": "北京市海淀区中关村大街27号3号楼501室",
    "name": "我叫王小明",
    "birthday": "生日是1990年5月1日",
    "score with a colon": "数学：95",
    "score of a hundred": "95/100",
    "grade": "A+",
    "score taken": "考了95",
    "patient": "糖尿病患者",
    "late stage": "乳腺癌晚期",
    "lab value": "HbA1c 9.2",
    "positive": "HIV+",
    "plate": "京A12345",
    "WeChat id": "wxid_abc123def456g",
    "IP address": "192.168.1.10",
    "Arabic-Indic digits": "١٣٨٠٠١٣٨٠٠٠",
    "spaced digits": "1 3 8 0 0 1 3 8 0 0 0",
}
