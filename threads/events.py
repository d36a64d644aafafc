"""What happens while a run is answered, as values; JSON and SSE are two renderings of these. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The run was accepted; always the first event."""

    run_id: str
    thread_id: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextReady:
    """The prompt is assembled; `context` is the ledger as API.md shows it."""

    context: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """More text of the answer."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled:
    """The model calls a tool; `arguments` are as it wrote them, JSON or not, without secrets."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned:
    """A call has its result; `id` is the call's, `reference_id` opens the whole of the result."""

    id: str
    reference_id: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The run succeeded and everything of it is committed.

    Attributes:
        run_id: Names the stored run.
        run: The run as it was stored, where this process stored it; else it has to be read.
    """

    run_id: str
    run: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The run failed; `detail` holds nothing of the prompt and no key.

    `context` is there where the run was refused on its way, over budget: the ledger at that time.
    """

    run_id: str
    code: str
    detail: str
    context: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """The run was cancelled, by its client leaving or by a cancel call."""

    run_id: str


RunEvent: TypeAlias = (
    Started | ContextReady | Delta | ToolCalled | ToolReturned | Completed | Failed | Cancelled
)
LastEvent: TypeAlias = Completed | Failed | Cancelled
