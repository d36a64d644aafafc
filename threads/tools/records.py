"""What a tool call comes to: its outcome, the files a run writes, the files it goes on with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from governance.policy_rules import Policy
from memory.errors import CredenceError
from memory.providers.base import ToolCall
from memory.retrieval.results import RetrievalTrace
from memory.scope import Scope


class ToolRefusedError(CredenceError):
    """The tool can not serve this call."""

    code = "tool_refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPlace:
    """Where a tool works: the session's scope, the agent's role and policy, a result's tokens."""

    scope: Scope
    role: str
    most_tokens: int
    policy: Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What one tool found, before it is made ready for the model.

    Attributes:
        text: The whole result.
        summary: What it comes to, in a few words.
        candidates: Rows looked at, kept those in the result; dropped is the rest.
        top_score: Score of the best one, where the tool scores.
        retrieval: How what is remembered was searched, where it was.
    """

    text: str
    summary: str
    candidates: int = 0
    kept: int = 0
    top_score: float | None = None
    retrieval: RetrievalTrace | None = None

    def with_more(self, *, text: str, count: int) -> ToolResult:
        """Return the result with another text, and so many more that were found and kept."""
        return replace(self, text=text, candidates=self.candidates + count, kept=self.kept + count)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """One tool call with its result, as it is stored and as the model sees it.

    Attributes:
        call: The call as the model made it.
        reference_id: The id that the stored tool message will have; view_message opens it.
        content: The whole result without secrets, as it will be stored.
        shown: What the model gets: cleaned, within the policy's long_tool_result_tokens, and with
            the reference id where it is not whole.
        summary: One line of at most 200 characters, cleaned, for people and for later prompts.
        is_error: Whether the call was refused or failed; the run goes on.
        started_at: When the call began; `ms` how long it took, in milliseconds.
        facts: Figures for the trace; never what was asked or found.
    """

    call: ToolCall
    reference_id: str
    content: str
    shown: str
    summary: str
    is_error: bool
    started_at: datetime
    ms: float
    facts: Mapping[str, Any] = field(default_factory=dict)

    def trace_data(self) -> dict[str, Any]:
        """Return the data of its step: figures, a hash of the query, never a word of either."""
        return {**self.facts, "is_error": self.is_error, "reference_id": self.reference_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewArtifact:
    """A file that a run wrote and that is stored if it succeeds; `bytes` of its UTF-8."""

    id: str
    name: str
    content: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceFile:
    """A stored file that a run goes on with; `bytes` of its UTF-8."""

    id: str
    run_id: str
    name: str
    content: str
    bytes: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertedItem:
    """A memory item that a run wrote and that is stored if it succeeds; free of secrets."""

    category: str
    key: str
    title: str
    content: str
