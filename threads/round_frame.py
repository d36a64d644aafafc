"""What a run's own tool rounds look like to its model: data inside the boundary. Pure.

A tool returns what somebody wrote once, and a model repeats what it read: both are cleaned anew
whenever they are sent, and what a tool returned stands between two lines of the boundary, like every
other remembered text. What is stored stays as it was.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from memory.boundary import Wording, message_label, wrap_message
from memory.boundary.inner import inner
from memory.providers.base import ToolCall

_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")
_MOST_NAME_CHARS: Final = 64
_UNNAMED: Final = "unknown"
_NO_ARGUMENTS: Final = "{}"


class RoundFrame:
    """Renders texts of rounds with the prompt's own tag and wording; each text is cleaned once."""

    def __init__(self, *, wording: Wording, tag: str) -> None:
        """Take what the prompt's boundary is made with."""
        self._wording = wording
        self._tag = tag
        self._label = message_label(wording=wording, speaker="tool")
        self._results: dict[str, str] = {}
        self._clean: dict[str, str] = {}

    def result(self, text: str) -> str:
        """Return what a tool returned, cleaned, between its two lines."""
        if text not in self._results:
            self._results[text] = wrap_message(
                wording=self._wording, tag=self._tag, label=self._label, body=text
            )
        return self._results[text]

    def said(self, text: str) -> str:
        """Return what the model said before its calls, without markers."""
        if text not in self._clean:
            self._clean[text] = inner(text, self._tag)
        return self._clean[text]

    def call(self, call: ToolCall) -> ToolCall:
        """Return a call as it is sent back: a plain name, and a JSON object without markers.

        What the model wrote instead of an object is not repeated: servers read arguments as JSON,
        and would refuse the whole prompt. The call's result has told the model.
        """
        name = _NOT_IN_A_NAME.sub("_", call.name)[:_MOST_NAME_CHARS]
        return ToolCall(
            id=call.id, name=name.strip("_") or _UNNAMED, arguments=self._arguments(call.arguments)
        )

    def _arguments(self, arguments: str) -> str:
        try:
            value = json.loads(arguments, parse_constant=_no_number)
            if not isinstance(value, dict):
                return _NO_ARGUMENTS
            cleaned = self._without_markers(value)
            if cleaned == value:
                return arguments
            json.dumps(cleaned, allow_nan=False)  # a number too large to be written again
        except (ValueError, RecursionError):
            return _NO_ARGUMENTS
        return written(cleaned)

    def _without_markers(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.said(value)
        if isinstance(value, dict):
            return {self.said(key): self._without_markers(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self._without_markers(part) for part in value]
        return value


def _no_number(name: str) -> float:
    """Refuse NaN and the infinities, which JSON does not have."""
    raise ValueError(name)


def written(value: Any) -> str:
    """Return a value as JSON; one that holds half of a surrogate pair in escapes."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text
