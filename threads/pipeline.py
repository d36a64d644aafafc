"""The road of a run, on one page: prepare, then the model, then finish.

`prepare` is one transaction: scope, precheck, history, assembly, and the accepted run. The model is
called by `threads.driver` with no transaction and no connection held. The ends of
`threads.finish` are one transaction each: status, messages, trace and job rows together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter
from typing import Any

from governance import access
from governance.access import Principal
from governance.policy_rules import Policy
from memory.errors import CredenceError
from memory.providers.base import ChatRequest, ProviderConfig
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads import runs
from threads.chat import provider_config
from threads.history import ThreadView
from threads.models import Agent, Run, RunStatus
from threads.places import Session, ask, enter_session, find_place
from threads.prompt.assembly import Assembled, assemble
from threads.prompt.loading import load_prompt
from threads.request import RunRequest
from threads.runs import PromptTrace, Question
from threads.tools.box import ToolBox


class ContextOverBudgetError(CredenceError):
    """The request and the agent's own prompt do not fit the target budget; shorten one of them."""

    code = "context_over_budget"

    def __init__(
        self, *, context: Mapping[str, Any], run_id: str | None = None, detail: str | None = None
    ) -> None:
        """Keep the ledger, the rejected run's id where there is a run, and what to do about it."""
        if run_id is not None:
            self.run_id = run_id
        self.context = context
        super().__init__(detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """An accepted run, ready for its model; nothing in it touches the database but its tools.

    `prompt` is what `request` came from, for making it smaller on the way; `tools` is None where
    the agent has none; `steps` are those taken since it was accepted.
    """

    scope: Scope
    run: Run
    agent: Agent
    title: str
    is_bootstrap: bool
    context: Mapping[str, Any]
    config: ProviderConfig
    request: ChatRequest
    view: ThreadView
    policy: Policy
    prompt: Assembled
    tools: ToolBox | None = None
    steps: tuple[Mapping[str, Any], ...] = ()

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.run.pk

    @property
    def thread_id(self) -> str:
        """Its thread's id."""
        return self.run.thread_id


def prepare(
    *, principal: Principal, agent_id: str, request: RunRequest, now: datetime
) -> PreparedRun:
    """Accept a run and assemble its prompt. Cost: at most eleven statements, one transaction.

    Raises:
        NotFoundError: The agent is unknown, inactive, or not this principal's to run.
        ThreadMismatchError: The thread is unknown or another tenant's, agent's or user's.
        ThreadArchivedError: The thread is archived.
        ForbiddenError: The principal may not act for this user.
        ReservedUserIdError: A new person's id can not be a tenant's own.
        ContextOverBudgetError: Nothing can be cut any more; the run is stored as rejected.
    """
    started = perf_counter()
    question = ask(request)
    with scoped_transaction(access.tenant_scope(principal)):
        place = find_place(principal, agent_id, request, now)
        config = provider_config(place.agent.provider)
        session = enter_session(place, question, now)
        scoped_at = perf_counter()
        given, tools = load_prompt(
            setting=session.setting, request=request, question=question.text, now=now
        )
        built = assemble(given)
        marks = (started, scoped_at, perf_counter())
        steps = prompt_steps(built=built, scope=session.scope, now=now, marks=marks)
        run = _accept(session, question, built, steps, now)
    if built.ledger.decision == "reject":
        raise ContextOverBudgetError(run_id=run.pk, context=run.context, detail=built.refusal)
    return PreparedRun(
        scope=session.scope,
        run=run,
        agent=place.agent,
        title=session.thread.title,
        is_bootstrap=session.setting.is_bootstrap,
        context=run.context,
        config=config,
        request=ChatRequest(
            model=place.agent.model,
            messages=built.messages,
            max_output_tokens=place.agent.max_output_tokens,
            tools=given.tools,
        ),
        view=session.setting.view,
        policy=place.policy,
        prompt=built,
        tools=tools,
    )


def _accept(
    session: Session,
    question: Question,
    built: Assembled,
    steps: list[dict[str, Any]],
    now: datetime,
) -> Run:
    """Store the run with its account and its prompt; end it here if it is refused."""
    run = runs.accept(
        scope=session.scope,
        thread=session.thread,
        question=question,
        now=now,
        is_bootstrap=session.setting.is_bootstrap,
        context=built.ledger.as_json(),
        trace=PromptTrace(messages=built.messages_as_json(), items=built.items, steps=steps),
    )
    run.end_user = session.end_user
    if built.ledger.decision == "reject":
        code = ContextOverBudgetError.code
        runs.end(
            scope=session.scope,
            run_id=run.pk,
            status=RunStatus.REJECTED,
            now=now,
            error_code=code,
            error_detail=built.refusal,
        )
    return run


def prompt_steps(
    *, built: Assembled, scope: Scope, now: datetime, marks: tuple[float, float, float]
) -> list[dict[str, Any]]:
    """Return the trace of preparing: what each step did and how long it took.

    Args:
        built: The prompt.
        scope: Whom and what it was made for.
        now: When it began.
        marks: The clock at the beginning, when the place was found, and at the end, in seconds.
    """
    started, scoped_at, assembled_at = marks
    ledger = built.ledger
    precheck = {
        "current_tokens": ledger.current_tokens,
        "target_budget": ledger.target_budget,
        "decision": ledger.decision,
        "candidate_count": ledger.candidate_count,
    }
    who = {"tenant_id": scope.tenant_id, "user_id": scope.user_id, "thread_id": scope.thread_id}
    shown = {"prompt_tokens": ledger.prompt_tokens, "items": len(built.items), **built.parts}
    scoped_ms, assembled_ms = scoped_at - started, assembled_at - scoped_at
    taken: list[tuple[str, float, Mapping[str, Any]]] = [
        ("scope", scoped_ms, who),
        ("precheck", assembled_ms, precheck),
        *(("compress", assembled_ms, level.as_json()) for level in built.compressions),
        ("assemble", assembled_ms, shown),
    ]
    at = now.isoformat()
    return [
        {
            "seq": seq,
            "kind": kind,
            "started_at": at,
            "ms": round(seconds * 1000, 2),
            "data": dict(data),
        }
        for seq, (kind, seconds, data) in enumerate(taken, start=1)
    ]
