"""Characters a reader cannot see but a model can: found and taken out."""

from __future__ import annotations

import re

from memory.sanitize.patterns import Finder

# Combining marks beyond this many on one letter are a flood; no living script stacks more.
_MAX_MARKS = 4
_MARK = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_FLOOD = re.compile(f"([{_MARK}]{{{_MAX_MARKS}}})[{_MARK}]+")

_TAGS = re.compile("[\U000e0000-\U000e007f]+")
_PICTURE = "\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff\u20e3\ufe0f0-9#*"
# Joiners mean something inside emoji and in Arabic and Indic words; there they stay.
_JOINED = "\u0600-\u08ff\u0900-\u0dff"
_HIDDEN = (
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_INVISIBLE = re.compile(
    f"(?<=[{_PICTURE}])\u200d(?=[{_PICTURE}])()"
    f"|(?<=[{_JOINED}])[\u200c\u200d](?=[{_JOINED}])()"
    f"|(?<=[{_PICTURE}])(?<!\ufe0f)\ufe0f()"
    f"|[{_HIDDEN}]"
)
_SUSPECT = Finder(f"[{_HIDDEN}]|[{_MARK}]{{{_MAX_MARKS + 1}}}")


def strip_invisible(text: str) -> tuple[str, tuple[str, ...]]:
    """Return `text` without hidden characters, and the names of the rules that took any out."""
    if not _SUSPECT.is_in(text):
        return text, ()
    fired: list[str] = []
    for name, pattern, replace in _RULES:
        cut = pattern.sub(replace, text)
        if cut != text:
            fired.append(name)
            text = cut
    return text, tuple(fired)


def _keep_wanted(match: re.Match[str]) -> str:
    """Return a joiner or selector that shapes visible text, nothing for all others."""
    return match.group() if match.lastindex else ""


_RULES = (
    ("tag_characters", _TAGS, ""),
    ("invisible_characters", _INVISIBLE, _keep_wanted),
    ("combining_flood", _FLOOD, r"\1"),
)
