"""What one prompt is made from: the request, the agent, and everything loaded for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from governance.policy_rules import Policy
from memory.boundary import Wording
from memory.ledger import target_budget
from memory.providers.base import ToolSpec
from memory.sections import Candidate
from threads.counting import Counter
from threads.models import Agent
from threads.past import Past
from threads.prompt.behaviour import NOTHING, Behaviour
from threads.prompt.parts import (
    Candidates,
    fact_candidates,
    guidelines_text,
    material_candidates,
    workspace_candidates,
)
from threads.request import RunRequest
from threads.tools.records import WorkspaceFile

IN_RUN_TOKENS: Final = 80_000
IN_RUN_CHARS: Final = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptInput:
    """Everything one prompt is made from.

    Attributes:
        past: The thread's past, loaded in the scope of its session.
        counter: Counts what the agent's model will.
        tools: What the model may call.
        remembered: Further items by section: preferences, core, related, reference.
        retrieval: What the account says of the search for them; None where nothing was searched.
        workspace: The artefacts to go on with.
        behaviour: The approved samples that follow the agent's own prompt.
    """

    agent: Agent
    policy: Policy
    wording: Wording
    tag: str
    past: Past
    counter: Counter
    request: RunRequest
    question: str
    now: datetime
    is_bootstrap: bool = False
    tools: tuple[ToolSpec, ...] = ()
    remembered: Mapping[str, Sequence[Candidate]] = field(default_factory=dict)
    retrieval: Mapping[str, Any] | None = None
    workspace: tuple[WorkspaceFile, ...] = ()
    behaviour: Behaviour = NOTHING

    @property
    def target(self) -> int:
        """The target budget of the agent's window."""
        return target_budget(
            context_window=self.agent.context_window,
            max_output_tokens=self.agent.max_output_tokens,
        )

    @property
    def system_prompt(self) -> str:
        """The agent's own prompt and the approved samples after it; empty with neither."""
        return self.behaviour.after(self.agent.system_prompt)

    @property
    def limit(self) -> int:
        """What the prompt may cost: the target, and never more than the in-run window (L0)."""
        return min(self.target, IN_RUN_TOKENS)

    def candidates(self) -> Candidates:
        """Return what wants in besides the past."""
        request, policy, now = self.request, self.policy, self.now
        found = {name: list(wanted) for name, wanted in self.remembered.items()}
        found["facts"] = fact_candidates(facts=request.facts, policy=policy, now=now)
        materials = material_candidates(materials=request.materials, policy=policy, now=now)
        found["reference"] = [*materials, *found.get("reference", [])]
        found["continue"] = workspace_candidates(files=self.workspace, question=self.question)
        guide = guidelines_text(
            wording=self.wording, role=self.agent.role, tools=[tool.name for tool in self.tools]
        )
        return Candidates(
            wording=self.wording,
            tag=self.tag,
            policy=policy,
            by_section=found,
            guidelines=guide if self.is_bootstrap else "",
        )
