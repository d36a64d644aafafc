"""The readings of a value: a needle is found through any composition of encodings."""

from __future__ import annotations

import base64
import gzip
import html
import json
import pickle
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from django.core import signing
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.erasure.decoding import digits_of, fold, readings

Encoder = Callable[[str], str]


def b64(raw: bytes) -> str:
    """Plain base64."""
    return base64.b64encode(raw).decode()


ENCODERS: dict[str, Encoder] = {
    "base64": lambda text: b64(text.encode()),
    "base64 in lines": lambda text: base64.encodebytes(text.encode()).decode(),
    "base64url": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "zlib": lambda text: b64(zlib.compress(text.encode())),
    "gzip": lambda text: b64(gzip.compress(text.encode())),
    "hex": lambda text: text.encode().hex(),
    "bytea": lambda text: "\\x" + text.encode().hex(),
    "json": lambda text: json.dumps({"text": text}),
    "python": lambda text: repr(text.encode()),
    "unicode_escape": lambda text: text.encode("unicode_escape").decode(),
    "pickle": lambda text: b64(pickle.dumps({"args": (text, 1)})),
    "pickle of bytes": lambda text: b64(pickle.dumps([text.encode()], protocol=2)),
    "old pickle": lambda text: pickle.dumps([text], protocol=0).decode("latin-1"),
    "signed": lambda text: signing.dumps([text], key="k" * 20),
    "signed, compressed": lambda text: signing.dumps([text] * 3, key="k" * 20, compress=True),
    "percent": quote,
    "form": quote_plus,
    "html": lambda text: html.escape("<b>" + text) + "".join(f"&#{ord(sign)};" for sign in text),
    "utf-16": lambda text: b64(text.encode("utf-16-le")),
}
NEEDLES = (
    "Margarethe Ölsen, 13 Quay Street",
    "家住杭州市西湖区文三路九十九号",
    "m.oelsen+x@example.org",
)


def is_found(needle: str, value: str) -> bool:
    """Say whether one reading has the needle."""
    return any(fold(needle) in text for text in readings(value).texts)


@pytest.mark.parametrize("needle", NEEDLES)
@pytest.mark.parametrize("outer", ENCODERS)
@pytest.mark.parametrize("inner", [None, *ENCODERS])
def test_decoding_any_two_encodings_one_in_the_other_are_seen_through(
    inner: str | None, outer: str, needle: str
) -> None:
    text = f"before it {needle} and after"
    once = ENCODERS[inner](text) if inner else text
    assert is_found(needle, ENCODERS[outer](once))


@settings(max_examples=150, deadline=None)
@given(
    before=st.text(max_size=40),
    after=st.text(max_size=40),
    needle=st.sampled_from(NEEDLES),
    names=st.lists(st.sampled_from(sorted(set(ENCODERS) - {"old pickle", "utf-16"})), max_size=2),
)
def test_decoding_needle_between_anything_is_found(
    before: str, after: str, needle: str, names: list[str]
) -> None:
    # UTF-16 is told by its first signs and an old pickle by whole lines: not between anything.
    text = f"{before} {needle} {after}".encode(errors="ignore").decode()
    for name in names:
        text = ENCODERS[name](text)
    assert is_found(needle, f"x: {text} .")


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=2000))
def test_decoding_any_text_is_read_with_bounded_output(text: str) -> None:
    found = readings(text)
    assert sum(map(len, found.texts)) <= 40 * (4 * 1024 * 1024 + 16 * len(text))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=2000))
def test_decoding_any_bytes_in_base64_hurt_nobody(raw: bytes) -> None:
    readings(b64(b"\x80\x04" + raw))
    readings(b64(b"\x78\x9c" + raw))


class Bomb:
    """What a pickle would do if it were loaded."""

    def __init__(self, path: Path) -> None:
        """Name the file that loading would make."""
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Make a file."""
        return (Path.touch, (self.path,))


def test_decoding_pickle_is_read_and_never_loaded(tmp_path: Path) -> None:
    target = tmp_path / "was loaded"
    raw = pickle.dumps(["Margarethe lives here", Bomb(target)])
    assert is_found("Margarethe lives here", b64(raw))
    assert is_found("was loaded", b64(raw))
    assert not target.exists()


def test_decoding_inflating_a_bomb_is_bounded() -> None:
    bomb = b64(zlib.compress(b"a" * 200_000_000, 9))
    assert sum(map(len, readings(bomb).texts)) < 400_000_000
    assert readings(bomb).is_cut


@pytest.mark.parametrize(
    "text",
    [
        "13800138000",
        "138 0013 8000",
        "(138) 0013-8000",
        "１３８００１３８０００",
        '{"tel": "138-0013-8000"}',
    ],
)
def test_decoding_digits_are_read_without_their_separators(text: str) -> None:
    assert digits_of(text) == "13800138000"


def test_decoding_tsvector_words_are_read_in_their_order() -> None:
    value = "'curie':2 'it''s':4 'marie':1 'radium':3A '家住杭州市西湖区':5"
    assert "marie curie radium it's 家住杭州市西湖区" in readings(value).texts


def test_decoding_is_linear() -> None:

    def seconds(times: int) -> float:
        text = ("\\u5f20 QUFBQUFBQUFBQUFBQUFBQUFB %20 &amp; 'a':1 1-1-1-1 \\\\" * 40) * times
        started = time.perf_counter()
        readings(text)
        return time.perf_counter() - started

    seconds(1)
    assert seconds(160) < 40 * max(seconds(10), 0.002)
