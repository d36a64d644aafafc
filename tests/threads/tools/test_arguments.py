"""Arguments as models write them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threads.tools.arguments import Arguments, mended, read_arguments
from threads.tools.records import ToolRefusedError
from threads.tools.specs import MOST_ARGUMENT_BYTES, TOOLS

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
NAMES = st.sampled_from(["query", "limit", "start_time", "end_time", "message_id", "offset"])


def read(tool: str, raw: str) -> Arguments:
    return read_arguments(tool=TOOLS[tool], raw=raw)


def refusal(tool: str, arguments: Any) -> str:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    with pytest.raises(ToolRefusedError) as caught:
        read(tool, text)
    return caught.value.detail


def test_arguments_fill_their_defaults() -> None:
    found = read("memory_grep", '{"query": "试卷", "start_time": null}')
    assert (found.text("query"), found.count("limit")) == ("试卷", 20)
    assert found.time("start_time") is None
    assert read("view_chat_history_summary", "").count("limit") == 10
    assert read("view_chat_history_summary", "{}").values == {"limit": 10}


@pytest.mark.parametrize("name", ["user_id", "tenant", "tenant_id", "agent_id", "role", "scope"])
@pytest.mark.parametrize("tool", sorted(TOOLS))
def test_case_23_identity_among_the_arguments_is_refused_by_name(tool: str, name: str) -> None:
    required = {p.name: "x" for p in TOOLS[tool].parameters if p.is_required}
    detail = refusal(tool, required | {name: "usr_1"})
    assert f'Unknown argument "{name}"' in detail
    assert all(parameter.name in detail for parameter in TOOLS[tool].parameters)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("{", "not valid JSON"),
        ("{'query': 'x'}", "not valid JSON"),
        ('{"query": "x"} trailing', "not valid JSON"),
        ('{"query": "x", "query": "y"}', "not valid JSON"),
        ('{"query": "x", "limit": NaN}', "not valid JSON"),
        ('{"query": "x", "limit": Infinity}', "not valid JSON"),
        ('{"query": "x", "limit": ' + "9" * 5000 + "}", "not valid JSON"),
        ("[" * 60_000, "not valid JSON"),
        ("[]", "not a JSON object"),
        ('"query"', "not a JSON object"),
        ("null", "not a JSON object"),
        ('{"query": "' + "x" * MOST_ARGUMENT_BYTES + '"}', "over 64 KB"),
        ("{}", "needs the argument query"),
        ('{"query": null}', "needs the argument query"),
        ('{"query": 5}', "must be a string"),
        ('{"query": ["x"]}', "must be a string"),
        ('{"query": {"a": {"b": 1}}}', "must be a string"),
        ('{"query": ""}', "is empty"),
        ('{"query": "  "}', "is empty"),
        ('{"query": "' + "x" * 201 + '"}', "over 200 characters"),
        ('{"query": "x", "limit": 0}', "must be 1 to 100"),
        ('{"query": "x", "limit": 101}', "must be 1 to 100"),
        ('{"query": "x", "limit": true}', "whole number"),
        ('{"query": "x", "limit": "five"}', "whole number"),
        ('{"query": "x", "limit": "５"}', "whole number"),
        ('{"query": "x", "limit": "1e2"}', "whole number"),
        ('{"query": "x", "limit": 5.5}', "whole number"),
        ('{"query": "x", "limit": [5]}', "whole number"),
    ],
)
def test_arguments_that_do_not_fit_say_why(raw: str, said: str) -> None:
    assert said in refusal("memory_grep", raw)


@pytest.mark.parametrize("limit", [5, "5", " 5 ", 5.0, "5.0"])
def test_numbers_are_read_where_they_are_clear(limit: object) -> None:
    assert read("memory_grep", json.dumps({"query": "x", "limit": limit})).count("limit") == 5


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2026-01-31", (2026, 1, 31, 0, 0), (2026, 1, 31, 23, 59, 59, 999999)),
        ("2026-01-31T10:30", (2026, 1, 31, 10, 30), (2026, 1, 31, 10, 30)),
        ("2026-01-31 10:30:05Z", (2026, 1, 31, 10, 30, 5), (2026, 1, 31, 10, 30, 5)),
        ("2026-01-31T10:30:05.25+08:00", (2026, 1, 31, 2, 30, 5, 250000),
         (2026, 1, 31, 2, 30, 5, 250000)),
        ("9999-12-31", (9999, 12, 31), (9999, 12, 31, 23, 59, 59, 999999)),
    ],
)  # fmt: skip
def test_times_are_utc_and_a_date_is_its_whole_day(
    text: str, start: tuple[int, ...], end: tuple[int, ...]
) -> None:
    found = read("memory_grep", json.dumps({"query": "x", "start_time": text, "end_time": text}))
    assert found.time("start_time") == datetime(*start, tzinfo=UTC)  # type: ignore[arg-type,misc]
    assert found.time("end_time") == datetime(*end, tzinfo=UTC)  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    "text",
    [
        "yesterday", "昨天", "2026", "20260131", "2026-W05-1", "31.01.2026", "2026-02-30",
        "0000-01-01", "9999-12-31T23:59:60Z", "infinity", "-infinity", "２０２６-01-01",
        "0001-01-01T00:00+14:00", "9999-12-31T23:00-14:00", "2026-01-31T25:00Z", "",
        "2026-01-31T10:30:05Z; DROP TABLE x",
    ],
)  # fmt: skip
def test_case_122_times_of_another_form_are_told_the_form(text: str) -> None:
    for name in ("start_time", "end_time"):
        detail = refusal("memory_grep", {"query": "x", name: text})
        assert detail == f"{name} must have the form YYYY-MM-DD or YYYY-MM-DDTHH:MM:SSZ."


def test_case_115_nul_and_lone_surrogates_are_mended() -> None:
    found = read("memory_grep", r'{"query": "a\u0000b\ud800c \ud83d\ude00"}')
    assert found.text("query") == "a\ufffdb\ufffdc 😀"
    assert mended("端到端 😀 e\u0301") == "端到端 😀 e\u0301"


def test_artifact_of_200_000_characters_fits_however_it_is_escaped() -> None:
    content = "😀" * 200_000
    found = read("write_artifact", json.dumps({"name": "a.md", "content": content}))
    assert found.text("content") == content
    over = {"name": "a.md", "content": "x" * 200_001}
    assert "over 200,000 characters" in refusal("write_artifact", over)


@given(st.sampled_from(sorted(TOOLS)), st.text() | st.dictionaries(NAMES | st.text(), JSON) | JSON)
def test_arguments_are_read_or_refused_and_nothing_else(tool: str, given_: object) -> None:
    raw = given_ if isinstance(given_, str) else json.dumps(given_)
    said = ""
    values: set[str] = set()
    try:
        values = set(read(tool, raw).values)
    except ToolRefusedError as error:
        said = error.detail
    assert bool(said) or values >= {p.name for p in TOOLS[tool].parameters if p.is_required}
    assert values <= {parameter.name for parameter in TOOLS[tool].parameters}
    assert said.encode().decode() == said
