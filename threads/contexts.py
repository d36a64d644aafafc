"""A prompt without a run: assembled for callers who call models themselves; only its trace is kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from time import perf_counter
from typing import Any

from governance import access
from governance.access import Principal
from memory.rls import scoped_transaction
from threads.disclosing import note_context
from threads.models import ContextTrace
from threads.pipeline import ContextOverBudgetError, MadePrompt, make_prompt, prompt_steps
from threads.places import Setting, ask, look
from threads.prompt.assembly import Assembled
from threads.recall.finding import embed_question
from threads.request import RunRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembledContext:
    """A prompt with its account, and whether it opens a session."""

    prompt: Assembled
    bootstrap: bool

    @property
    def messages(self) -> list[dict[str, str]]:
        """The messages."""
        return self.prompt.messages_as_json()

    @property
    def context(self) -> dict[str, Any]:
        """The ledger."""
        return self.prompt.ledger.as_json()

    @property
    def items(self) -> list[dict[str, Any]]:
        """What the prompt shows."""
        return self.prompt.items


def assemble_context(
    *, principal: Principal, agent_id: str, request: RunRequest, now: datetime
) -> AssembledContext:
    """Assemble a prompt as a run would, call no model, and keep its trace alone.

    No person, thread, run or message comes of it. The caller's model is offered no tools, so the
    guidelines name none. Cost: about ten statements and those of
    the searches, one transaction.

    Raises:
        NotFoundError: The agent is unknown, inactive, or not this principal's to run.
        ThreadMismatchError: The thread is unknown or another tenant's, agent's or user's.
        ForbiddenError: The principal may not act for this user.
        FactsNotAllowedError: The policy takes no facts with a request.
        ContextOverBudgetError: Nothing can be cut any more; the trace is kept all the same.
    """
    question = ask(request)
    wide = access.tenant_scope(principal)
    asked = embed_question(scope=wide, text=question.text, agent_id=agent_id)
    started = perf_counter()
    with scoped_transaction(wide):
        setting = look(principal, agent_id, request, now)
        made = make_prompt(
            setting=setting,
            request=request,
            question=question.text,
            asked=asked,
            started=started,
            now=now,
            has_tools=False,
        )
        built = made.built
        _keep(setting, made, now)
    if built.ledger.decision == "reject":
        raise ContextOverBudgetError(context=built.ledger.as_json(), detail=built.refusal)
    return AssembledContext(prompt=built, bootstrap=setting.is_bootstrap)


def _keep(setting: Setting, made: MadePrompt, now: datetime) -> None:
    built = made.built
    scope = setting.scope
    trace = ContextTrace(
        tenant_id=scope.tenant_id,
        end_user_id=scope.user_id,
        agent=setting.agent,
        thread_id=setting.thread_id,
        key_id=scope.principal_id,
        context=built.ledger.as_json(),
        # Of somebody nobody knows yet no text is kept: an erasure could not find it later.
        messages=built.messages_as_json() if scope.user_id else [],
        items=built.items if scope.user_id else [],
        steps=prompt_steps(made=made, scope=scope, now=now),
        created_at=now,
    )
    trace.save(force_insert=True)
    if built.ledger.decision != "reject":  # what is refused nobody gets
        note_context(scope=scope, trace=trace, agent=setting.agent, items=built.items)
