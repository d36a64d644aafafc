"""Readers of what strangers wrote take it or refuse it by name, whatever it is."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC

import pytest
from django.http import QueryDict
from hypothesis import example, given
from hypothesis import strategies as st

from governance.keys import parse
from governance.tenants import ReservedUserIdError, check_user_id, same_in_any_form
from tests.asgi_client import events_of
from threads.api.fields import BadTimeError, read_time, write_time
from threads.api.pagination import InvalidCursorError, InvalidParameterError, page_request
from threads.api.sse import event
from threads.imports import BadLineError, parse_line

ANYTHING = st.text(st.characters(exclude_categories=()), max_size=80)
CLEAN = st.text(max_size=80)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | CLEAN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(CLEAN, inner, max_size=4),
    max_leaves=12,
)
TIMES = st.from_regex(
    r"[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,6})?"
    r"(Z|[+-][0-2][0-9]:[0-9]{2})",
    fullmatch=True,
)


@given(raw=ANYTHING | st.from_regex(r"cr_[a-z0-9]{8}_[A-Za-z0-9]{46}", fullmatch=True))
@example(raw="cr_aaaaaaaa_" + "١" * 46)
def test_text_is_a_key_only_with_its_checksum(raw: str) -> None:
    found = parse(raw)
    if found is not None:
        prefix, secret = found
        assert raw.startswith(f"cr_{prefix}_{secret}")
        assert parse(raw[:-1] + ("a" if raw[-1] != "a" else "b")) is None


@given(text=ANYTHING)
def test_user_id_that_is_taken_can_be_stored_and_is_none_of_ours(text: str) -> None:
    with suppress(ReservedUserIdError):
        check_user_id(text)
        text.encode()
        assert "\x00" not in text
        assert text.strip()
        assert same_in_any_form(same_in_any_form(text)) == same_in_any_form(text)


@given(text=ANYTHING | TIMES)
@example(text="0001-01-01T00:00:00+14:00")
@example(text="9999-12-31T23:59:59-14:00")
def test_case_122_time_that_is_taken_is_written_and_read_back(text: str) -> None:
    with suppress(BadTimeError):
        at = read_time(text)
        assert at.tzinfo is UTC
        assert read_time(write_time(at)) == at


@given(cursor=ANYTHING, limit=ANYTHING)
def test_case_11_no_invented_cursor_or_odd_limit_is_taken(cursor: str, limit: str) -> None:
    query = QueryDict(mutable=True)
    query["cursor"] = cursor
    with pytest.raises(InvalidCursorError):
        page_request(principal_id="key_1", path="/v1/users", query=query)
    del query["cursor"]
    query["limit"] = limit
    with suppress(InvalidParameterError):
        taken = page_request(principal_id="key_1", path="/v1/users", query=query)
        assert (str(taken.limit), 1 <= taken.limit <= 200) == (limit.lstrip("0"), True)


@given(data=st.dictionaries(CLEAN, JSON, max_size=4))
@example(data={"text": "a\nevent: completed\r\ndata: {}\u2028\u2029\x85\x0b\x0c"})
def test_event_is_two_lines_and_its_data_comes_back(data: dict[str, object]) -> None:
    raw = event("delta", data)
    (found,) = events_of(raw)
    assert (found.name, found.data) == ("delta", data)
    assert raw.count(b"\n") == 3
    assert b"\r" not in raw


@given(raw=ANYTHING | st.binary(max_size=60).map(lambda raw: raw.decode("latin1")))
@example(raw="[" * 200_000)
@example(raw='{"user_id": "u", "user_id": "v", "content": "x"}')
@example(raw='{"created_at": "0001-01-01T00:00:00+23:59", "user_id": "u", "content": "x"}')
def test_line_of_anything_is_refused_by_name(raw: str) -> None:
    with suppress(BadLineError):
        parse_line(raw)


@given(user_id=ANYTHING, content=ANYTHING, thread=ANYTHING, at=TIMES)
def test_line_that_is_taken_can_be_stored(user_id: str, content: str, thread: str, at: str) -> None:
    fields = {"user_id": user_id, "content": content, "thread": thread, "created_at": at}
    with suppress(BadLineError):
        line = parse_line(json.dumps(fields))
        for text in (line.user_id, line.content, line.thread):
            text.encode()
            assert "\x00" not in text
        assert line.created_at is not None
        assert 1899 <= line.created_at.year <= 9999
