"""From the JSON of a chat completion, whole or in chunks, to events. Pure; trusts nothing."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from memory.providers.base import ChatEvent, Finished, TextDelta, ToolCall, ToolCallMade, Usage
from memory.providers.errors import ProviderError

MAX_TEXT_BYTES = 2 * 1024 * 1024
MAX_TOOL_CALLS = 128
_MAX_NAME_CHARACTERS = 200
_MAX_TOKENS = 2**31 - 1
_HIGH_SURROGATES = range(0xD800, 0xDC00)
GARBLED = "The provider's answer is not a chat completion."


@dataclass(slots=True)
class _PartialCall:
    index: int
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def made(self) -> ToolCallMade:
        if not self.name:
            raise ProviderError("The provider called a tool without a name.")
        return ToolCallMade(
            call=ToolCall(
                id=self.id or f"call_{secrets.token_hex(8)}",
                name=self.name,
                arguments=mended("".join(self.arguments)) or "{}",
            )
        )


class AnswerReader:
    """Collects one answer; call `feed` for each JSON value and `finish` when there are no more.

    `has_progressed` says whether the last `feed` brought anything of the model's (text, reasoning
    or a piece of a tool call): only that counts against the timeouts. `usage` is what the provider
    has counted so far, also of an answer that is of no use. `describe_error` makes the detail of an
    error the provider reports inside a 200 answer.
    """

    def __init__(self, *, model: str, describe_error: Callable[[object], str]) -> None:
        """Begin an answer of `model`, whose name is used if the provider gives none."""
        self.has_progressed = False
        self.is_finished = False
        self.has_usage = False
        self._describe_error = describe_error
        self._model = model
        self._reason: str | None = None
        self.usage: Usage | None = None
        self._calls: list[_PartialCall] = []
        self._size = 0
        self._has_text = False
        self._held = ""

    def feed(self, data: object) -> list[ChatEvent]:
        """Return the text that `data` brings, possibly none.

        Raises:
            ProviderError: when `data` has the wrong shape, reports an error or a refusal, or the
                answer outgrows 2 MiB.
        """
        self.has_progressed = False
        chunk = _mapping(data)
        if chunk.get("error"):
            raise ProviderError(f"The provider reported an error{self._describe_error(chunk)}")
        self._read_frame(chunk)
        events: list[ChatEvent] = []
        for choice in _list(chunk.get("choices")):
            events += self._read_choice(_mapping(choice))
        return events

    def finish(self, *, saw_done: bool) -> list[ChatEvent]:
        """Return the end of the answer: held-back text, the tool calls, `Finished`.

        Raises:
            ProviderError: when the answer was cut off, or holds neither text nor a tool call.
        """
        if not self.is_finished and not saw_done:
            raise ProviderError("The provider's answer broke off.")
        calls = [call.made() for call in self._calls]
        if not calls and not self._has_text:
            raise ProviderError("The provider's answer is empty.")
        rest = self._text("", is_last=True)
        reason = self._reason or ("tool_calls" if calls else "stop")
        return [*rest, *calls, Finished(reason=reason, model=self._model, usage=self.usage)]

    def _read_frame(self, chunk: Mapping[str, object]) -> None:
        model = chunk.get("model")
        if isinstance(model, str) and model.strip():
            self._model = mended(model.strip())[:_MAX_NAME_CHARACTERS]
        usage = _usage(chunk.get("usage"))
        if usage is not None:
            self.usage = usage
            self.has_usage = True

    def _read_choice(self, choice: Mapping[str, object]) -> list[ChatEvent]:
        if choice.get("index") not in (0, None):
            return []
        delta = _mapping(choice.get("delta") or choice.get("message") or {})
        self._refuse(delta, choice.get("finish_reason"))
        if delta.get("reasoning_content") or delta.get("reasoning"):
            self.has_progressed = True
        events = self._text(_content(delta.get("content")))
        for call in _list(delta.get("tool_calls")):
            self._read_call(_mapping(call))
        return events

    def _refuse(self, delta: Mapping[str, object], reason: object) -> None:
        if delta.get("refusal"):
            raise ProviderError("The model refused to answer.")
        if reason is None:
            return
        if not isinstance(reason, str):
            raise ProviderError(GARBLED)
        if reason == "content_filter":
            raise ProviderError("The provider's content filter withheld the answer.")
        if reason:
            self._reason = mended(reason)[:_MAX_NAME_CHARACTERS]
            self.is_finished = True

    def _text(self, text: str, *, is_last: bool = False) -> list[ChatEvent]:
        self._grow(text)
        text = self._held + text
        self._held = ""
        if text and not is_last and ord(text[-1]) in _HIGH_SURROGATES:
            text, self._held = text[:-1], text[-1]  # its other half comes with the next delta
        text = mended(text)
        self._has_text = self._has_text or bool(text.strip())
        return [TextDelta(text=text)] if text else []

    def _read_call(self, delta: Mapping[str, object]) -> None:
        function = _mapping(delta.get("function") or {})
        call = self._call_for(delta, starts=bool(function.get("name")))
        call.id = call.id or mended(_string(delta.get("id")))[:_MAX_NAME_CHARACTERS]
        call.name = call.name or mended(_string(function.get("name")))[:_MAX_NAME_CHARACTERS]
        arguments = function.get("arguments")
        if isinstance(arguments, Mapping):  # some servers parse what the model wrote
            arguments = json.dumps(arguments, ensure_ascii=False)
        piece = _string(arguments)
        self._grow(piece)
        self.has_progressed = True
        call.arguments.append(piece)

    def _call_for(self, delta: Mapping[str, object], *, starts: bool) -> _PartialCall:
        index, call_id = delta.get("index"), delta.get("id")
        known = [call for call in self._calls if index is None or call.index == index]
        call = known[-1] if known else None
        is_other = call is not None and starts and bool(call_id) and call_id != call.id
        is_new = index is None and starts
        if call is not None and not is_other and not is_new:
            return call
        if len(self._calls) >= MAX_TOOL_CALLS:
            raise ProviderError("The provider called too many tools at once.")
        made = _PartialCall(index=index if isinstance(index, int) else len(self._calls))
        self._calls.append(made)
        return made

    def _grow(self, text: str) -> None:
        if not text:
            return
        self.has_progressed = True
        self._size += len(text.encode("utf-8", "surrogatepass"))
        if self._size > MAX_TEXT_BYTES:
            raise ProviderError("The provider's answer is too long.")


def mended(text: str) -> str:
    """Return `text` as it can be stored: surrogate pairs joined, lone ones and NUL replaced."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _content(value: object) -> str:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return _string(value)
    return "".join(_string(_mapping(part).get("text")) for part in value)


def _usage(value: object) -> Usage | None:
    if not isinstance(value, Mapping):
        return None
    counts = [value.get("prompt_tokens"), value.get("completion_tokens")]
    tokens = [
        count
        for count in counts
        if isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= _MAX_TOKENS
    ]
    return Usage(input_tokens=tokens[0], output_tokens=tokens[1]) if len(tokens) == 2 else None


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ProviderError(GARBLED)
    return value


def _list(value: object) -> Sequence[object]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ProviderError(GARBLED)
    return value


def _string(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ProviderError(GARBLED)
    return value
