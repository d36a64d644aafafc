"""The tools of one run: what may be called, calling it, and what was written meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from governance.policy_rules import Policy
from memory.language import Language
from memory.providers.base import ToolCall, ToolSpec
from memory.scope import Scope
from threads.tools.records import NewArtifact, ToolOutcome, WorkspaceFile


class ToolBox:
    """The tools of one run of one person; it buffers what they write."""

    def __init__(
        self,
        *,
        scope: Scope,
        agent_id: str,
        role: str,
        language: Language,
        tools: Sequence[str],
        policy: Policy,
        workspace: Sequence[WorkspaceFile] = (),
    ) -> None:
        """Take the session's scope, which names person and thread, and the agent's settings."""
        self._scope = scope

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the tools as a provider is told of them."""
        return ()

    def call(self, *, call: ToolCall, now: datetime) -> ToolOutcome:
        """Run one call. Blocks on the database: one short scoped transaction."""
        raise NotImplementedError

    @property
    def written(self) -> tuple[NewArtifact, ...]:
        """What was written, the last version of each name; stored only if the run succeeds."""
        return ()
