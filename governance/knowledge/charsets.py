"""Bytes to text, conservatively: a wrong guess would be stored for good. Pure."""

from __future__ import annotations

import codecs
import re
from typing import Final

from governance.knowledge.problems import DocumentTextError, UnreadableDocumentError

_HAN: Final = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
# Signs that Chinese text is written with beside ideographs and ASCII.
_CHINESE: Final = re.compile(
    "[\x00-\x7f\u00b7\u00d7\u2010-\u2026\u2103\u2160-\u217f\u2460-\u249b\u3000-\u30ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uff01-\uffe5]"
)
_LEAST_HAN: Final = 2
_LEAST_COMMON_SHARE: Final = 0.9


def decode(raw: bytes) -> str:
    """Return the text that bytes spell: UTF-8, UTF-16 with its mark, or plain Chinese GB18030.

    GB18030 gives some character to nearly any bytes, so it counts only where what comes out is
    Chinese in common characters. Line ends become line feeds. Cost: linear.

    Raises:
        UnreadableDocumentError: It is none of these.
        DocumentTextError: The text holds a NUL.
    """
    text = _decoded(raw)
    if "\0" in text:
        raise DocumentTextError
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decoded(raw: bytes) -> str:
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _strictly(raw, "utf-16")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = _strictly(raw, "gb18030")
    if not _is_plain_chinese(text):
        raise UnreadableDocumentError("The text is not UTF-8.")
    return text


def _strictly(raw: bytes, encoding: str) -> str:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableDocumentError("The text is not UTF-8.") from error


def _is_plain_chinese(text: str) -> bool:
    """Say whether a text is what its writer meant, and not another charset misread."""
    han = _HAN.findall(text)
    if len(han) < _LEAST_HAN or len(_CHINESE.findall(text)) < _LEAST_COMMON_SHARE * len(text):
        return False
    return sum(map(_is_common, han)) >= _LEAST_COMMON_SHARE * len(han)


def _is_common(letter: str) -> bool:
    """Say whether an ideograph is of the first level of GB2312, the 3,755 in daily use."""
    try:
        return 0xB0 <= letter.encode("gb2312")[0] <= 0xD7
    except UnicodeEncodeError:
        return False
