"""What a stranger's JSON may be (cases 112, 113, 115, 116)."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threads.api.strict_json import InvalidJSONError, InvalidTextError, read_object


@pytest.mark.parametrize(
    "raw",
    [
        b"[1]",
        b'"text"',
        b"null",
        b"{",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": 1, "a": 2}',
        b'{"x": {"b": 1, "b": 1}}',
        b'{"a": 9223372036854775808}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": "\xff"}',
        b'{"a": "\xed\xa0\x80"}',
        '{"a": 1}'.encode("utf-16"),
        b'{"a": "line\nbreak"}',
        b'{"a": 1} {"b": 2}',
    ],
)
def test_read_object_refuses_what_is_not_our_json(raw: bytes) -> None:
    with pytest.raises(InvalidJSONError):
        read_object(raw)


@pytest.mark.parametrize(
    "raw",
    [
        rb'{"a": "\u0000"}',
        rb'{"a\u0000": 1}',
        rb'{"a": "\ud800"}',
        rb'{"a": [{"b": "x\udfffy"}]}',
        rb'{"\udc00": 1}',
    ],
)
def test_case_115_nul_or_lone_surrogate_is_refused_in_values_and_names(raw: bytes) -> None:
    with pytest.raises(InvalidTextError):
        read_object(raw)


def test_read_object_keeps_chinese_and_paired_surrogates() -> None:
    assert read_object('{"问": "答", "e": "\\ud83d\\ude00"}'.encode()) == {"问": "答", "e": "😀"}


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_cases_112_and_113_deep_nesting_is_refused_without_recursion(opening: bytes) -> None:
    for depth in (33, 900, 100_000):
        with pytest.raises(InvalidJSONError, match="deeper"):
            read_object(b'{"a":' + opening * depth)


def test_read_object_takes_32_levels_and_brackets_inside_texts() -> None:
    deep = b'{"a":' + b"[" * 31 + b"]" * 31 + b"}"
    assert isinstance(read_object(deep)["a"], list)
    assert read_object(b'{"a": "' + b"[" * 100 + rb"\"[[" + b'"}')["a"].startswith("[[[")


def test_read_object_is_linear_in_hostile_bodies() -> None:
    began = time.perf_counter()
    read_object(b'{"a": [' + b'"",' * 500_000 + b'""]}')
    read_object(b'{"a": [' + b"[]," * 500_000 + b"[]]}")
    with pytest.raises(InvalidJSONError):
        read_object(b'{"a": "' + b"\\" * 1_000_001)
    assert time.perf_counter() - began < 20


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-(2**63), 2**63 - 1)
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
                    inner,
                    max_size=3,
                )
            ),
            max_leaves=8,
        ),
        max_size=5,
    )
)
def test_read_object_reads_every_plain_object_back(value: dict[str, object]) -> None:
    assert read_object(json.dumps(value).encode()) == value
    assert read_object(json.dumps(value, ensure_ascii=False).encode()) == value
