"""Identity numbers: Chinese ID, passport, bank card, social security and health cards."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stdnum import luhn
from stdnum.iso7064 import mod_11_2

from memory.sanitize.patterns import Hit, PatternBook

_DOCUMENT_ZH = r"医保卡?|醫保卡?|社保卡?|社会保障|驾驶证|驾照|駕照|通行证|居住证|居留证|军官证|士官证|回乡证|台胞证|港澳证|出生证明?|户口簿|签证"
_DOCUMENT_EN = (
    r"driver'?s? licen[cs]e|driving licen[cs]e|national (?:id|insurance)|identity card|id card|medicare|medicaid"
    r"|health insurance|residence permit|visa number|green card|tax(?:payer)? id|itin|nhs"
)

BOOK = PatternBook(
    {
        "digits": r"\d(?:[ \-.]{0,2}\d){12,24}(?:[ \-.]{0,2}[xX])?",
        "passport": (
            r"(?i)(?:护\s*照|護\s*照|passport)[^\d\n。;]{0,14}?(?P<v>\b[a-z]{1,2} ?\d{6,8}\b|\b\d{8,9}\b)"
        ),
        "document": (
            rf"(?i)(?:{_DOCUMENT_ZH}|{_DOCUMENT_EN})[^\d\n。;]{{0,14}}?"
            r"(?P<v>\b[a-z]{0,3}[ \-]?\d(?:[ \-]?[\da-z]){5,18}\b)"
        ),
        "ssn": r"\b(?P<v>\d{3}[\-–. ]\d{2}[\-–. ]\d{4})\b",
        "ssn_named": r"(?i)(?:\bssn|social security)[^\d\n]{0,20}(?P<v>\d{3}[\-–. ]?\d{2}[\-–. ]?\d{4})\b",
    }
)

_ID_CONTEXT = re.compile(r"身份|证件|證件|\bid\b|identity|居民", re.IGNORECASE)
_CARD_CONTEXT = re.compile(
    r"卡号|卡號|银行|銀行|信用卡|储蓄卡|借记卡|[刷办绑]卡|卡片|账[号户]|帐[号户]|card|\bcc\b|visa|master|amex|银联|銀聯|unionpay"
    r"|account|付款|转账|汇款|debit|credit",
    re.IGNORECASE,
)
_NO_CARD_CONTEXT = re.compile(
    r"订单|訂單|运单|快递|单号|流水号|编号|order|tracking|invoice|waybill|imei", re.IGNORECASE
)
_GROUPED = re.compile(
    r"(?:\d{4}[ -]){3}\d{1,4}(?:[ -]\d{1,3})?|\d{4}[ -]\d{6}[ -]\d{5}|\d{6}[ -]\d{13}"
)
# Old (15 digits) and new form. Where a text says it is an ID number, a typing error in the check
# digit does not make it less of one. (stdnum's own cn.ric refuses districts newer than its list.)
_CITIZEN = re.compile(
    r"[1-8]\d{5}(?:(?:18|19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dXx]"
    r"|\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3})"
)
_CONTEXT_CHARS = 20


def identity_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of identity numbers in a shadow text, checksums verified where they exist."""
    for hit in BOOK.hits(text):
        start, end = hit.groups.get("v", (hit.start, hit.end))
        if _is_number_edge(text, start, end) and _is_identity(text, hit, text[start:end]):
            yield start, end


def _is_number_edge(text: str, start: int, end: int) -> bool:
    """Say whether the number is not a piece of a longer number, word or digest."""
    around = text[start - 1 : start] if start else ""
    around += text[end : end + 1]
    return not any(letter.isascii() and (letter.isalnum() or letter == "_") for letter in around)


def _is_identity(text: str, hit: Hit, value: str) -> bool:
    """Say whether one hit is an identity number."""
    if hit.name == "ssn":
        return value[:3] not in {"000", "666"} and value[0] != "9" and value[4:6] != "00"
    if hit.name != "digits":
        return True
    before = text[max(0, hit.start - _CONTEXT_CHARS) : hit.start]
    compact = re.sub(r"[ \-.]", "", value)
    if _is_citizen_number(compact, before):
        return True
    return _is_card(value, compact, before)


def _is_citizen_number(compact: str, before: str) -> bool:
    """Say whether digits are a Chinese ID number: checksum, or context and the right form."""
    if not _CITIZEN.fullmatch(compact):
        return False
    if _ID_CONTEXT.search(before):
        return True
    return len(compact) == 18 and mod_11_2.is_valid(compact.upper())


def _is_card(value: str, compact: str, before: str) -> bool:
    """Say whether digits are a payment card: Luhn, and context or grouping that says card."""
    if not (13 <= len(compact) <= 19 and compact.isdigit() and luhn.is_valid(compact)):
        return False
    if _NO_CARD_CONTEXT.search(before) or len(set(compact)) == 1:
        return False
    is_long_unionpay = len(compact) == 19 and compact.startswith("62")
    return is_long_unionpay or bool(_GROUPED.fullmatch(value) or _CARD_CONTEXT.search(before))
