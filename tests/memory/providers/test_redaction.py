"""What of a provider's error may be repeated."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.providers.base import ChatMessage, ToolCall
from memory.providers.redaction import clean, said_by_provider
from tests.memory.providers.conftest import KEY, request

PROMPT = "Please write to alice@example.com about order 4711."


def said(body: object, prompt: str = PROMPT) -> str:
    return said_by_provider(body, request=request(prompt), api_key=KEY)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"error": {"message": "Model overloaded"}}, ": Model overloaded"),
        ({"message": "Model\n overloaded\x07"}, ": Model overloaded"),
        ({"error": "quota used up"}, ": quota used up"),
        ({"error": {"message": f"bad key {KEY}", "code": "invalid_api_key"}}, None),
        ({"error": {"message": "no user alice@example.com", "code": "bad"}}, ": bad"),
        ({"error": {"message": 5, "type": "server_error"}}, ": server_error"),
        ({"error": {"code": "<script>"}}, ""),
        ("<html>", ""),
        (None, ""),
        ([], ""),
    ],
)
def test_message_is_short_clean_or_absent(body: object, expected: str | None) -> None:
    shown = said(body)
    assert KEY not in shown
    if expected is not None:
        assert shown == expected


@settings(deadline=None)
@given(secret=st.text("abcdefghijkmnpqrstuvwxyz23456789", min_size=12, max_size=40))
def test_no_piece_of_the_key_is_repeated(secret: str) -> None:
    key = f"sk-{secret}"
    for message in (key, f"key {key[:10]}***", f"'{key[-8:]}' is wrong"):
        shown = said_by_provider({"message": message}, request=request("unrelated"), api_key=key)
        assert key[-8:] not in shown
        assert key[3:10] not in shown


def test_what_a_tool_was_called_with_is_not_repeated() -> None:
    call = ToolCall(id="c", name="look", arguments='{"query": "alice@example.com"}')
    asked = ChatMessage(role="assistant", content="", tool_calls=(call,))
    given = replace(request("unrelated"), messages=(asked,))
    body = {"error": {"message": "bad argument alice@example.com", "code": "bad"}}
    assert said_by_provider(body, request=given, api_key=None) == ": bad"


@settings(deadline=None)
@given(text=st.text(max_size=500))
def test_clean_is_one_short_line(text: str) -> None:
    cleaned = clean(text)
    assert len(cleaned) <= 200
    assert "\n" not in cleaned
