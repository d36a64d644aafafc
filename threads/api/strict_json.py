"""Reading JSON that a stranger wrote: bounded, unambiguous, and never with anything but a 400. Pure."""

from __future__ import annotations

import json
import math
import re
from itertools import accumulate
from typing import Any, Final

from memory.errors import InvalidInputError

MAX_DEPTH: Final = 32
_MOST_DIGITS: Final = 19
# Possessive, so linear; re2 would call back into Python for each of a million short strings.
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKETS = bytes.maketrans(b"[{]}", b"\x02\x02\x00\x00")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[{]}"))


class InvalidJSONError(InvalidInputError):
    """The body is not the JSON we accept: UTF-8, one object, no doubled names, plain numbers."""

    code = "invalid_json"


class InvalidTextError(InvalidInputError):
    """A text holds a NUL character or half of a surrogate pair, which no text may."""

    code = "invalid_text"


def read_object(raw: bytes) -> dict[str, Any]:
    """Return the object that `raw` spells. Cost: linear in its length, whatever its nesting.

    Raises:
        InvalidJSONError: Not UTF-8, not JSON, not an object, nested over 32 levels, a name twice
            in one object, NaN or an infinity, or a number beyond 64 bits.
        InvalidTextError: A NUL or a lone surrogate in a text or a name.
    """
    _check_depth(raw)
    try:
        value = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_unique_names,
            parse_constant=_refuse_constant,
            parse_int=_bounded_int,
            parse_float=_bounded_float,
        )
    except UnicodeDecodeError as error:
        raise InvalidJSONError("The body is not valid UTF-8.") from error
    except json.JSONDecodeError as error:
        raise InvalidJSONError(f"The body is not JSON: see character {error.pos}.") from error
    if not isinstance(value, dict):
        raise InvalidJSONError("The body must be a JSON object.")
    if b"\\u" in raw:  # Nothing else can bring in a NUL or half a surrogate pair.
        _check_texts(value)
    return value


def is_clean_text(text: str) -> bool:
    """Say whether a text is free of NUL characters and lone surrogates."""
    if "\x00" in text:
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _check_depth(raw: bytes) -> None:
    """Refuse deep nesting before the parser sees it, which would recurse."""
    brackets = _STRINGS.sub(b"", raw).translate(_BRACKETS, _NO_BRACKETS)
    deepest = max(accumulate(step - 1 for step in brackets), default=0)
    if deepest > MAX_DEPTH:
        raise InvalidJSONError(f"The body nests deeper than {MAX_DEPTH} levels.")


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidJSONError("The body names something twice in one object.")
    return found


def _refuse_constant(name: str) -> Any:
    raise InvalidJSONError(f"{name} is no JSON number.")


def _bounded_int(digits: str) -> int:
    if len(digits.lstrip("-")) > _MOST_DIGITS or not -(2**63) <= int(digits) < 2**63:
        raise InvalidJSONError("The body holds a number beyond 64 bits.")
    return int(digits)


def _bounded_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise InvalidJSONError("The body holds a number that is too large.")
    return number


def _check_texts(value: Any) -> None:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            if not is_clean_text(part):
                raise InvalidTextError
        elif isinstance(part, dict):
            waiting.extend(part.keys())
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
