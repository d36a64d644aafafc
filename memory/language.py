"""Which language a text is in, as far as prompts care: Chinese, English, or another one."""

from __future__ import annotations

import re
from typing import Literal

Language = Literal["zh", "en"]
Dominant = Literal["zh", "en", "other"]

_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_KANA_HANGUL = re.compile("[\u3041-\u3096\u30a1-\u30fa\uac00-\ud7a3\u1100-\u11ff]")
_LATIN_WORD = re.compile("[A-Za-z\u00c0-\u024f]+")
# Words of other alphabets: Greek, Cyrillic, Hebrew, Arabic, Indic, Thai and their neighbours.
_OTHER_WORD = re.compile("[\u0370-\u052f\u0531-\u06ff\u0900-\u0fff]+")
_CODE = re.compile(r"```.*?```|https?://[!-~]+", re.DOTALL)

# Japanese prose is about half kana; a Chinese text that names one Japanese shop is not Japanese.
_KANA_SHARE = 0.15


def dominant_language(text: str) -> Dominant:
    """Return the language that most of `text` is in; "other" too where there are no letters.

    A Han character weighs as much as a Latin word, so that a Chinese sentence with English product
    names stays Chinese. Fenced code and links are not counted. Linear, some microseconds a KB.
    """
    prose = _CODE.sub(" ", text) or text
    han = len(_HAN.findall(prose))
    kana = len(_KANA_HANGUL.findall(prose))
    latin = len(_LATIN_WORD.findall(prose))
    other = len(_OTHER_WORD.findall(prose))
    if kana and kana >= _KANA_SHARE * (han + kana) and kana + han >= latin:
        return "other"
    if han and han >= max(latin, other):
        return "zh"
    if latin and latin >= other:
        return "en"
    return "other"


def resolve(agent_language: str, request: str) -> Language:
    """Return the language to speak to the model in: the agent's, or for "auto" the request's.

    Anything but Chinese is answered with the English wording.
    """
    if agent_language == "zh":
        return "zh"
    if agent_language == "en":
        return "en"
    return "zh" if dominant_language(request) == "zh" else "en"
