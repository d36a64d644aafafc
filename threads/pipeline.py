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
from governance.entities.expansion import expansion_of
from governance.policy_rules import Policy
from memory.errors import CredenceError
from memory.providers.base import ChatRequest, ProviderConfig
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads import runs
from threads.chat import provider_config
from threads.disclosing import note_prompt
from threads.history import ThreadView
from threads.models import Agent, Run, RunStatus
from threads.places import Session, Setting, ask, enter_session, find_place
from threads.prompt.assembly import Assembled, assemble
from threads.prompt.loading import load_prompt
from threads.prompt.remembering import recall
from threads.prompt.vocabulary import with_vocabulary
from threads.recall.finding import QuestionVector, asked_text, embed_question
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
    """Accept a run and assemble its prompt, with what is remembered for its question.

    The question is embedded before the transaction opens. Cost: at most twelve statements, one
    transaction; besides, those of the searches and the short transaction that finds the model.

    Raises:
        NotFoundError: The agent is unknown, inactive, or not this principal's to run.
        ThreadMismatchError: The thread is unknown or another tenant's, agent's or user's.
        ThreadArchivedError: The thread is archived.
        ForbiddenError: The principal may not act for this user.
        ScopeError: Whose memory may be searched is not known: nothing is, and there is no run.
        ReservedUserIdError: A new person's id can not be a tenant's own.
        ContextOverBudgetError: Nothing can be cut any more; the run is stored as rejected.
    """
    question = ask(request)
    wide = access.tenant_scope(principal)
    asked = embed_question(scope=wide, text=question.text, agent_id=agent_id)
    started = perf_counter()
    with scoped_transaction(wide):
        place = find_place(principal, agent_id, request, now)
        config = provider_config(place.agent.provider)
        session = enter_session(place, question, now)
        made = make_prompt(
            setting=session.setting,
            request=request,
            question=question.text,
            asked=asked,
            started=started,
            now=now,
        )
        built = made.built
        steps = prompt_steps(made=made, scope=session.scope, now=now)
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
            tools=built.given.tools,
        ),
        view=session.setting.view,
        policy=place.policy,
        prompt=built,
        tools=made.tools,
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
    else:  # what is refused no model sees
        agent = session.setting.agent
        note_prompt(scope=session.scope, run=run, agent=agent, items=built.items, now=now)
    return run


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The clock, in seconds: at the beginning, and when each part of preparing was done."""

    started: float
    scoped_at: float
    searched_at: float
    found_at: float
    assembled_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MadePrompt:
    """An assembled prompt, the tools its run may call, and how it came to be.

    `retrieval` says how the search for what is remembered went; None where nothing was searched.
    """

    built: Assembled
    tools: ToolBox | None
    retrieval: Mapping[str, Any] | None
    marks: Marks


def make_prompt(
    *,
    setting: Setting,
    request: RunRequest,
    question: str,
    asked: QuestionVector,
    started: float,
    now: datetime,
    has_tools: bool = True,
) -> MadePrompt:
    """Load what a prompt is made from, recall what bears on its question, and assemble it.

    Inside the caller's transaction, which `started` at that clock.
    """
    scoped_at = perf_counter()
    given, tools = load_prompt(
        setting=setting, request=request, question=question, now=now, has_tools=has_tools
    )
    searched_at = perf_counter()
    named = expansion_of(scope=setting.scope, text=asked_text(question))
    recalled = recall(given=given, setting=setting, asked=asked, named=named)
    given = with_vocabulary(given=recalled.given, scope=setting.scope, named=named)
    found_at = perf_counter()
    built = assemble(given)
    marks = Marks(
        started=started,
        scoped_at=scoped_at,
        searched_at=searched_at,
        found_at=found_at,
        assembled_at=perf_counter(),
    )
    return MadePrompt(built=built, tools=tools, retrieval=recalled.step, marks=marks)


def prompt_steps(*, made: MadePrompt, scope: Scope, now: datetime) -> list[dict[str, Any]]:
    """Return the trace of preparing: what each step did and how long it took.

    Args:
        made: The prompt.
        scope: Whom and what it was made for.
        now: When it began.
    """
    built, retrieval, marks = made.built, made.retrieval, made.marks
    ledger = built.ledger
    precheck = {
        "current_tokens": ledger.current_tokens,
        "target_budget": ledger.target_budget,
        "decision": ledger.decision,
        "candidate_count": ledger.candidate_count,
    }
    who = {"tenant_id": scope.tenant_id, "user_id": scope.user_id, "thread_id": scope.thread_id}
    shown = {"prompt_tokens": ledger.prompt_tokens, "items": len(built.items), **built.parts}
    searched_ms = marks.found_at - marks.searched_at
    assembled_ms = marks.assembled_at - marks.scoped_at - searched_ms
    taken: list[tuple[str, float, Mapping[str, Any]]] = [
        ("scope", marks.scoped_at - marks.started, who),
        ("precheck", assembled_ms, precheck),
        *([("retrieval", searched_ms, retrieval)] if retrieval is not None else []),
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
