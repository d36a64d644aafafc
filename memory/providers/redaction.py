"""What of a provider's words may appear in an error: short, cleaned, or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import re2

from memory.providers.base import ChatRequest

MAX_MESSAGE_CHARACTERS = 200
_SHARED_CHARACTERS = 8  # as many in a row as the prompt holds too: the message quotes the prompt
_SHARED_KEY_CHARACTERS = 5
_MIN_WHOLE_CHARACTERS = 3

_KEY_SHAPED = re2.compile(
    r"(?i)\b(?:bearer\s+\S+|(?:sk|pk|rk|cr|gsk|xai|key|token|api)[-_][\w.*-]{3,})"
    r"|[A-Za-z0-9_.+/=*-]*[0-9*][A-Za-z0-9_.+/=*-]{15,}"
    r"|[A-Za-z0-9_.+/=*-]{15,}[0-9*][A-Za-z0-9_.+/=*-]*"
)
_BLANKS = re2.compile(r"[\s\x00-\x1f\x7f]+")
_WORD = re2.compile(r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")


def said_by_provider(body: object, *, request: ChatRequest, api_key: str | None) -> str:
    """Return `": message"` made from an error body, or "" if nothing of it is safe to repeat.

    Tries `error.message`, then the identifier in `error.code` or `error.type`. Whatever is
    shaped like a key is struck out; a message that shares 8 characters with the prompt, or 5
    with the key, is not repeated at all. Cost: 200 substring scans of the prompt, on errors only.
    """
    error = _error_of(body)
    for name in ("message", "code", "type"):
        value = error.get(name)
        if not isinstance(value, str) or (name != "message" and not _WORD.match(value)):
            continue
        text = clean(value)
        if text and not _quotes(text, request=request, api_key=api_key):
            return f": {text}"
    return ""


def clean(text: str) -> str:
    """Put `text` on one line of at most 200 characters with everything key-shaped struck out."""
    struck: str = _KEY_SHAPED.sub("[key]", _BLANKS.sub(" ", text))
    return struck[:MAX_MESSAGE_CHARACTERS].strip()


def _error_of(body: object) -> Mapping[str, object]:
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        if isinstance(inner, Mapping):
            return inner
        if isinstance(inner, str):
            return {"message": inner}
    return {}


def _quotes(text: str, *, request: ChatRequest, api_key: str | None) -> bool:
    if api_key and _shares(text, api_key, _SHARED_KEY_CHARACTERS):
        return True
    return any(
        _shares(text, said, _SHARED_CHARACTERS)
        or (len(said) >= _MIN_WHOLE_CHARACTERS and said in text)
        for said in _spoken(request)
    )


def _spoken(request: ChatRequest) -> Iterator[str]:
    """Yield all texts of the prompt, what tools were called with among them."""
    for message in request.messages:
        yield message.content
        for call in message.tool_calls:
            yield call.arguments


def _shares(text: str, secret: str, length: int) -> bool:
    windows = {text[at : at + length] for at in range(len(text) - length + 1)}
    return any(window in secret for window in windows)
