"""Decides which look-alikes of personal numbers are some: checksums, edges, the words around."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import phonenumbers
from stdnum import iban, luhn
from stdnum.cn import uscc
from stdnum.iso7064 import mod_11_2

from governance.pii.kinds import Kind
from memory.sanitize.patterns import Hit

_CONTEXT_CHARS: Final = 24
_AFTER_CHARS: Final = 10
_LEAST_IBAN: Final = 14
_NO_SEPARATORS: Final = str.maketrans("", "", " -.–·()/\n\t")
_ID_WORDS: Final = re.compile(
    r"身\s?份|证件|證件|居民|\bid\b|identity|id ?card|id ?number", re.IGNORECASE
)
_CARD_WORDS: Final = re.compile(
    r"卡号|卡號|银行|銀行|信用卡|储蓄卡|借记卡|[刷办绑]卡|卡片|card|\bcc\b|visa|master|amex|银联|銀聯|unionpay"
    r"|付款|转账|汇款|debit|credit|\bpan\b",
    re.IGNORECASE,
)
_PHONE_WORDS: Final = re.compile(
    r"电话|電話|手机|手機|座机|传真|致电|拨打|打给|联系|聯絡|短信|号码|tel|phone|mobile|cell|call|fax|whatsapp|text|ring|reach|contact",
    re.IGNORECASE,
)
_COMPANY_WORDS: Final = re.compile(
    r"税号|稅號|信用代码|统一社会|纳税人|机构代码|执照|企业代码|company code|credit code|tax (?:id|number)|uscc",
    re.IGNORECASE,
)
_PLATE_WORDS: Final = re.compile(r"车|車|牌|停|违章|司机|plate|car|parking", re.IGNORECASE)
# Numbers that are called something else, however much they look like a card or a phone.
_GOODS_WORDS: Final = re.compile(
    r"订单|訂單|运单|快递|单号|單號|流水号|编号|序列号|版本|批次|工单|条码|时间戳|imei|order|tracking|invoice|waybill|serial"
    r"|ticket|version|build|\bsku\b|isbn|timestamp|commit|\bsha\b|\bref\b|parcel|shipment|\bcase\b|epoch",
    re.IGNORECASE,
)
_PROVINCE_CODES: Final = frozenset(
    "11 12 13 14 15 21 22 23 31 32 33 34 35 36 37 41 42 43 44 45 46 50 51 52 53 54 61 62 63 64 65 71"
    " 81 82 83".split()
)
_BIRTH: Final = re.compile(r"(?:(?:18|19|20)\d{2}|\d{2})(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")
_ISSUERS: Final = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|3[068]\d{12}|35\d{14}"
    r"|6011\d{12}|65\d{14}|62\d{14,17}|9\d{15,18}"
)
# These names of provinces are words of many sentences; alone they make no plate.
_COMMON_PLACES: Final = frozenset("新云青贵吉黑宁藏川甘")
_NO_HANDLE: Final = frozenset(
    "official support pay payment group wechat weixin mini android windows developer".split()
)
_NO_NAME: Final = frozenset(
    "look meet me us arrive available is are be hosted found out it here there site page them him"
    " her you we i they stay work working live living was were and or good bad great see this that"
    " up down sale only based room aim laugh smile shop read posted listed visit online users".split()
)
_NO_TOP_DOMAIN: Final = frozenset(
    "png jpg jpeg gif svg webp py js ts md txt json yaml html".split()
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a hit is; uncertain where it fails its checksum but is called one."""

    kind: Kind
    is_certain: bool = True


@dataclass(frozen=True, slots=True)
class Place:
    """A hit in its text, with its value and what stands around it.

    `is_joined` says that line breaks between digits were taken away to see it.
    """

    text: str
    hit: Hit
    start: int
    end: int
    is_joined: bool = False

    @property
    def value(self) -> str:
        """What was found."""
        return self.text[self.start : self.end]

    @property
    def compact(self) -> str:
        """The value without separators."""
        return self.value.translate(_NO_SEPARATORS)

    @property
    def before(self) -> str:
        """What stands before it."""
        return self.text[max(0, self.start - _CONTEXT_CHARS) : self.start]

    def says(self, words: re.Pattern[str]) -> bool:
        """Say whether one of the words stands near: before it, or close behind."""
        return bool(words.search(self.before) or words.search(self._after))

    @property
    def _after(self) -> str:
        return self.text[self.end : self.end + _AFTER_CHARS]

    @property
    def is_goods(self) -> bool:
        """Whether it is called an order, a parcel or the like."""
        return bool(_GOODS_WORDS.search(self.before))

    def is_apart(self) -> bool:
        """Say whether it is no piece of a longer number or word."""
        after = self.text[self.end : self.end + 2]
        # What its pattern leads up to it with ("QQ12345") may touch it.
        before = (
            "" if self.start > self.hit.start else self.text[max(0, self.start - 2) : self.start]
        )
        if _is_word(before[-1:]) or _is_word(after[:1]):
            return False
        if len(before) == 2 and before[1] in ".-+/" and before[0].isdigit():
            return False
        return not (len(after) == 2 and after[0] in ".-/" and after[1].isdigit())


def _is_word(letter: str) -> bool:
    return letter.isascii() and (letter.isalnum() or letter == "_")


def judge(place: Place) -> Verdict | None:
    """Return what a hit is, None where it is nothing personal."""
    return _CHECKS[place.hit.name](place)


def _digits(place: Place) -> Verdict | None:
    compact = place.compact
    if not place.is_apart():
        return None
    identity, card = _id_card(place, compact), _bank_card(place, compact)
    # Of two readings the one with a checksum, else the one that the text gives it.
    return next((one for one in (identity, card) if one and one.is_certain), card or identity)


def _id_card(place: Place, compact: str) -> Verdict | None:
    """Judge an ID number: the new form by its checksum, the old one by what it is called."""
    is_new = len(compact) == 18
    if not (is_new or (len(compact) == 15 and compact.isdigit())):
        return None
    if compact[:2] not in _PROVINCE_CODES or not _BIRTH.fullmatch(
        compact[6 : 14 if is_new else 12]
    ):
        return None
    is_called = place.says(_ID_WORDS)
    if is_new and mod_11_2.is_valid(compact.upper()):
        return Verdict("id_card")
    if is_called:
        return Verdict("id_card", is_certain=not is_new)
    return (
        None
        if is_new or place.is_goods or place.is_joined
        else Verdict("id_card", is_certain=False)
    )


def _bank_card(place: Place, compact: str) -> Verdict | None:
    if not compact.isdigit() or not 12 <= len(compact) <= 19 or len(set(compact)) < 2:
        return None
    is_called = place.says(_CARD_WORDS)
    if place.is_goods and not is_called:
        return None
    if luhn.is_valid(compact):
        is_known = bool(_ISSUERS.fullmatch(compact)) and not place.is_joined
        return Verdict("bank_card") if is_called or is_known else None
    is_long = len(compact) >= 13
    return Verdict("bank_card", is_certain=False) if is_called and is_long else None


def _ssn(place: Place) -> Verdict | None:
    value = place.compact
    is_possible = value[:3] not in {"000", "666"} and value[0] != "9" and value[3:5] != "00"
    if not (place.is_apart() and is_possible) or place.is_goods:
        return None
    is_named = place.hit.name == "ssn_named" or "-" in place.value or "–" in place.value
    return Verdict("ssn") if is_named else None


def _company_code(place: Place) -> Verdict | None:
    if not place.is_apart():
        return None
    if uscc.is_valid(place.compact.upper()) and not place.is_goods:
        return Verdict("company_code")
    return Verdict("company_code", is_certain=False) if place.says(_COMPANY_WORDS) else None


def _iban(place: Place) -> Verdict | None:
    if not place.is_apart():
        return None
    if iban.is_valid(place.compact.upper()):
        return Verdict("iban")
    is_called = "iban" in place.before.lower() and len(place.compact) >= 15
    return Verdict("iban", is_certain=False) if is_called else None


def iban_end(text: str, start: int, end: int) -> int:
    """Return where an account number ends that words may follow: behind the last valid group."""
    for at in range(end, start + _LEAST_IBAN, -1):
        is_border = at == end or text[at] in " -"
        if is_border and iban.is_valid(text[start:at].translate(_NO_SEPARATORS).upper()):
            return at
    return end


def _named(kind: Kind) -> Callable[[Place], Verdict | None]:
    return lambda place: Verdict(kind) if place.is_apart() else None


def _email(place: Place) -> Verdict | None:
    top = place.value.rsplit(".", 1)[-1].lower()
    is_path = place.value.startswith("git@") and place.text[place.end : place.end + 1] in {":", "/"}
    is_login = place.before.endswith("//")
    return None if is_path or is_login or top in _NO_TOP_DOMAIN else Verdict("email")


def _email_spoken(place: Place) -> Verdict | None:
    who = place.text[slice(*place.hit.groups["who"])].lower()
    return None if who in _NO_NAME else Verdict("email")


def _mobile(place: Place) -> Verdict | None:
    """Judge a Chinese mobile number: in one piece, in its usual groups, or digit by digit."""
    if not place.is_apart() or place.is_goods:
        return None
    if place.is_joined and not place.says(_PHONE_WORDS):
        return None
    gaps = re.findall(r"\D+", place.value[place.value.find("1") :])
    is_usual = len(gaps) <= 3 or len(gaps) >= 10
    return Verdict("phone") if is_usual or place.says(_PHONE_WORDS) else None


def _phone(place: Place) -> Verdict | None:
    """Judge a number that has the shape of a telephone's, and perhaps is called one."""
    if not place.is_apart() or place.is_goods:
        return None
    digits = len(re.sub(r"\D", "", re.split(r"(?i)x|ext|转", place.value)[0]))
    name = place.hit.name
    if name in {"phone_named", "phone_labelled"}:
        return Verdict("phone") if 7 <= digits <= 15 and not _is_date(place.value) else None
    is_called = place.says(_PHONE_WORDS)
    if name == "international":
        return Verdict("phone") if 8 <= digits <= 15 and _has_country(place.value) else None
    if name in {"north_america", "landline_joined", "landline_cn"}:
        return Verdict("phone") if is_called or _is_plain_phone(place.value, name) else None
    if name == "hong_kong":
        return Verdict("phone") if is_called or place.value[0] in "+0(" else None
    return Verdict("phone")


def _is_date(value: str) -> bool:
    """Say whether digits are a date: "2026-11-30 12", "2026/11/30"."""
    return bool(re.match(r"(?:19|20)\d{2}[\-/.](?:0?[1-9]|1[0-2])[\-/.]", value))


def _is_plain_phone(value: str, name: str) -> bool:
    """Say whether the shape alone says telephone."""
    if name == "north_america":
        return bool(re.match(r"\+|001|1[ \-.]|\(|\d{3}[\-.]\d{3}[\-.]", value))
    if name == "landline_cn":
        return (value.lstrip("(+").startswith(("0", "86")) and "-" in value) or value.startswith(
            "(0"
        )
    return False


def _has_country(value: str) -> bool:
    """Say whether what follows the plus begins with the code of a country."""
    digits = re.sub(r"\D", "", value)
    return any(int(digits[:most]) in phonenumbers.COUNTRY_CODE_TO_REGION_CODE for most in (1, 2, 3))


def _plate(place: Place) -> Verdict | None:
    end = place.text[place.end : place.end + 1]
    if _is_word(end):
        return None
    body = place.value.lstrip()[1:]
    has_dot = place.hit.groups["dot"][0] < place.hit.groups["dot"][1]
    if place.says(_PLATE_WORDS):
        return Verdict("plate")
    if not any(letter.isdigit() for letter in body):
        return None
    return Verdict("plate") if has_dot or place.value[0] not in _COMMON_PLACES else None


def _handle(place: Place) -> Verdict | None:
    """Judge the name after a messenger's: with a digit or a sign in it, or clearly introduced."""
    value = place.value.lower()
    if _is_word(place.text[place.end : place.end + 1]) or value in _NO_HANDLE:
        return None
    has_sign = any(letter.isdigit() or letter in "_-" for letter in value)
    is_introduced = bool(
        re.search(r"[:=是为]|号|id", place.text[place.hit.start : place.start], re.IGNORECASE)
    )
    return Verdict("im_handle") if has_sign or is_introduced else None


_CHECKS: Final[Mapping[str, Callable[[Place], Verdict | None]]] = {
    "digits": _digits,
    "passport": _named("passport"),
    "passport_before": _named("passport"),
    "ssn": _ssn,
    "ssn_named": _ssn,
    "iban": _iban,
    "company_code": _company_code,
    "medical_card": _named("medical_card"),
    "email": _email,
    "email_spoken": _email_spoken,
    "mobile_cn": _mobile,
    "landline_cn": _phone,
    "landline_joined": _phone,
    "hong_kong": _phone,
    "taiwan": _phone,
    "north_america": _phone,
    "french": _phone,
    "international": _phone,
    "phone_named": _phone,
    "phone_labelled": _phone,
    "plate": _plate,
    "wechat": _handle,
    "wxid": _named("im_handle"),
    "qq": _named("im_handle"),
    "im_named": _named("im_handle"),
    "address_zh": lambda _: Verdict("address"),
    "address_en": lambda _: Verdict("address"),
}
