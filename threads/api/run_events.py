"""The events of a run as a stream writes them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory.errors import InvalidInputError
from threads.api import sse
from threads.api.strict_json import read_object
from threads.events import (
    Cancelled,
    ContextReady,
    Delta,
    Failed,
    Started,
    ToolCalled,
    ToolReturned,
)


def rendered(
    happened: Started | ContextReady | Delta | ToolCalled | ToolReturned | Failed | Cancelled,
) -> bytes:
    """Return an event as bytes; the completed run is written by who reads it."""
    name, told = _told(happened)
    return sse.event(name, told)


def _told(
    happened: Started | ContextReady | Delta | ToolCalled | ToolReturned | Failed | Cancelled,
) -> tuple[str, Mapping[str, Any]]:
    told: Mapping[str, Any]
    match happened:
        case Started():
            ids = {"run_id": happened.run_id, "thread_id": happened.thread_id}
            name, told = "started", {**ids, "title": happened.title}
        case ContextReady():
            name, told = "context", happened.context
        case Delta():
            name, told = "delta", {"text": happened.text}
        case ToolCalled():
            called = {"id": happened.id, "name": happened.name}
            name, told = "tool_call", {**called, "arguments": shown_arguments(happened.arguments)}
        case ToolReturned():
            ids = {"id": happened.id, "reference_id": happened.reference_id}
            name, told = "tool_result", {**ids, "summary": happened.summary}
        case Failed():
            why = {"code": happened.code, "detail": happened.detail}
            name, told = "failed", {"run_id": happened.run_id, **why}
        case Cancelled():
            name, told = "cancelled", {"run_id": happened.run_id}
    return name, told


def shown_arguments(arguments: str) -> Mapping[str, Any] | str:
    """Return a call's arguments as an object, or as they were written if they are none."""
    try:
        return read_object(arguments.encode("utf-8", "replace"))
    except InvalidInputError:
        return arguments
