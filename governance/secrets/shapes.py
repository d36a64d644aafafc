"""Looks at a value: is it random enough to be a secret, or a word, a number, a placeholder?"""

from __future__ import annotations

import base64
import binascii
import re
from itertools import pairwise

_VARIABLE = re.compile(r"[$%{<*]|\.\.\.|x{4,}$|\[secret", re.IGNORECASE)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-f]+", re.IGNORECASE)
_CODE = re.compile(r"[A-Za-z_]\w*(\.\w+)+[\[(]|[a-z_]{3,}\(|[a-z_]+(\.[a-z_]+)+$")
# Names out of words and numbers: "order_2026_items_v2", "report-final-3.xlsx".
_WORDS = re.compile(r"(?:[A-Za-z][a-z]*|v?\d{1,8})(?:[_\-./](?:[A-Za-z][a-z]*|v?\d{1,8}))+")
_RANGE = re.compile(r"\d{1,3}[-~]\d{1,3}")
_HEX_DIGEST_LENGTHS = {40, 64}
_LEAST_DISTINCT = 8
_LEAST_LETTERS = 16


def has_digit(value: str) -> bool:
    """Say whether a digit is in `value`."""
    return any(letter.isdigit() for letter in value)


def is_random(value: str) -> bool:
    """Say whether `value` mixes digits with letters, or is a long run of digits."""
    if not has_digit(value):
        return False
    return any(letter.isalpha() for letter in value) or len(value) >= _LEAST_DISTINCT


def is_token(value: str) -> bool:
    """Say whether `value` is random, also by its letters alone: their case changes too often."""
    if is_random(value):
        return True
    changes = sum(one.isupper() != two.isupper() for one, two in pairwise(value))
    return len(value) >= _LEAST_LETTERS and changes * 3 >= len(value)


def is_no_variable(value: str) -> bool:
    """Say whether `value` is a value and not the name of one ("$DB_PASS", "<password>", "***")."""
    return not _VARIABLE.match(value)


def is_key_value(value: str) -> bool:
    """Say whether what is called a key or token is one: random, long, no UUID, digest or code."""
    if not (is_token(value) and is_no_variable(value)) or value.isdigit():
        return False
    if _UUID.fullmatch(value) or _CODE.match(value):
        return False
    is_digest = len(value) in _HEX_DIGEST_LENGTHS and _HEX.fullmatch(value)
    return not (is_digest or _WORDS.fullmatch(value)) and len(set(value)) >= _LEAST_DISTINCT


def is_password(value: str) -> bool:
    """Say whether what follows the word password is one, and not a word of the sentence."""
    word = value.rstrip(".,;:!?)")
    if not is_no_variable(value) or _CODE.match(value) or _RANGE.fullmatch(value):
        return False
    if has_digit(word) or not word.isalnum():
        return len(word) >= 4 and any(letter.isalnum() for letter in word)
    return not word.islower() and not word.istitle() and not word.isupper()


def is_basic_credentials(value: str) -> bool:
    """Say whether `value` is the base64 of "user:password"."""
    try:
        plain = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return False
    return ":" in plain and plain.isprintable()


def is_no_year(value: str) -> bool:
    """Say whether a code is not simply a year of our time."""
    return not (len(value) == 4 and value.startswith(("19", "20")))
