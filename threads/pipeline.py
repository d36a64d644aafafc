"""The road of a run, on one page: prepare, then the model, then finish.

`prepare` is one transaction: scope, precheck, history, assembly, and the accepted run. The model is
called by `threads.driver` with no transaction and no connection held. The ends of
`threads.finish` are one transaction each: status, messages, trace and job rows together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import perf_counter
from typing import Any

from governance import access
from governance.access import Principal
from governance.policy import with_overrides
from governance.policy_rules import Policy, effective
from governance.secrets import strip_secrets
from governance.tenants import ensure_end_user
from memory.errors import ConflictError, CredenceError, InvalidInputError, NotFoundError
from memory.models import EndUser
from memory.providers.base import ChatRequest, ProviderConfig
from memory.rls import narrow_open_scope, scoped_transaction
from memory.scope import Scope
from threads import runs
from threads.chat import provider_config
from threads.history import EMPTY_VIEW, ThreadView, read_view
from threads.models import Agent, Run, RunStatus, Thread, ThreadStatus
from threads.prompt import Assembled, PromptInput, RunRequest, assemble
from threads.run_prompt import BasePrompt
from threads.runs import PromptTrace, Question
from threads.tools.box import ToolBox


class ThreadMismatchError(InvalidInputError):
    """This thread_id does not belong to this agent and user."""

    code = "thread_mismatch"


class ThreadArchivedError(ConflictError):
    """The thread is archived; unarchive it first."""

    code = "thread_archived"


class FactsNotAllowedError(InvalidInputError):
    """This tenant's policy takes no facts with a request."""

    code = "facts_not_allowed"


class ContextOverBudgetError(CredenceError):
    """The request and the agent's own prompt do not fit the target budget; shorten one of them."""

    code = "context_over_budget"

    def __init__(self, *, run_id: str, context: Mapping[str, Any]) -> None:
        """Keep the rejected run's id and its ledger."""
        self.run_id = run_id
        self.context = context
        super().__init__()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """An accepted run, ready for its model; nothing in it touches the database but its tools.

    `prompt` is what `request` came from, for making it smaller on the way; `tools` is None where
    the agent has none.
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
    prompt: BasePrompt | None = None
    tools: ToolBox | None = None

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
    question = _question(request)
    with scoped_transaction(access.tenant_scope(principal)):
        place = _find_place(principal, agent_id, request, now)
        config = provider_config(place.agent.provider)
        session = _enter_session(place, question, now)
        scoped_at = perf_counter()
        built = assemble(
            PromptInput(
                scope=session.scope,
                agent=place.agent,
                policy=place.policy,
                view=session.view,
                request=request,
                question=question.text,
                now=now,
            )
        )
        marks = (started, scoped_at, perf_counter())
        run = _accept(session, question, built, _steps(now, marks, built, session.scope), now)
    if built.ledger.decision == "reject":
        raise ContextOverBudgetError(run_id=run.pk, context=run.context)
    return PreparedRun(
        scope=session.scope,
        run=run,
        agent=place.agent,
        title=session.thread.title,
        is_bootstrap=session.is_bootstrap,
        context=run.context,
        config=config,
        request=_chat_request(place.agent, built),
        view=session.view,
        policy=place.policy,
    )


def _accept(
    session: _Session,
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
        is_bootstrap=session.is_bootstrap,
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
        )
    return run


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Who asks whom, and where; `thread` is None for a first question."""

    scope: Scope
    agent: Agent
    end_user: EndUser
    thread: Thread | None
    policy: Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """The thread of a run and its past, in the scope of that thread alone."""

    scope: Scope
    end_user: EndUser
    thread: Thread
    view: ThreadView
    is_bootstrap: bool


def _question(request: RunRequest) -> Question:
    """Return what was asked, free of secrets from here on."""
    return Question(
        text=strip_secrets(request.input).text,
        metadata=clean_metadata(request.metadata),
        continues_run_id=request.continues_run_id,
    )


def _find_place(principal: Principal, agent_id: str, request: RunRequest, now: datetime) -> _Place:
    """Find agent, person, thread and policy, and check that they go together. Three queries."""
    wide = access.tenant_scope(principal)
    agent = find_agent(principal=principal, scope=wide, agent_id=agent_id)
    end_user = ensure_end_user(scope=wide, user_id=request.user_id, now=now)
    scope = access.scope_for_user(principal=principal, end_user=end_user)
    thread = _find_thread(scope=scope, agent=agent, thread_id=request.thread_id)
    policy = effective(getattr(agent, "tenant_overrides", None) or {}, agent.policy)
    _check_facts(policy, request)
    return _Place(scope=scope, agent=agent, end_user=end_user, thread=thread, policy=policy)


def _enter_session(place: _Place, question: Question, now: datetime) -> _Session:
    """Narrow the transaction to the run's thread, made now if need be, and read its past."""
    known = place.thread
    thread = known or runs.new_thread(
        scope=place.scope,
        agent=place.agent,
        end_user=place.end_user,
        text=question.text,
        now=now,
    )
    scope = _into_session(place.scope, thread)
    return _Session(
        scope=scope,
        end_user=place.end_user,
        thread=thread,
        view=read_view(scope=scope, thread_id=thread.pk) if known else EMPTY_VIEW,
        is_bootstrap=_is_bootstrap(known, place.policy, now),
    )


def _chat_request(agent: Agent, built: Assembled) -> ChatRequest:
    return ChatRequest(
        model=agent.model,
        messages=built.messages,
        max_output_tokens=agent.max_output_tokens,
    )


def find_agent(*, principal: Principal, scope: Scope, agent_id: str) -> Agent:
    """Return an agent this principal may run, with provider and tenant policy. Cost: one query.

    Raises:
        NotFoundError: Unknown, inactive and forbidden look the same.
    """
    rows = with_overrides(Agent.objects.in_scope(scope), scope=scope)
    agent = rows.select_related("provider").filter(pk=agent_id, is_active=True).first()
    if agent is None:
        raise NotFoundError
    access.require_agent(principal=principal, agent=agent, agent_id=agent.pk)
    return agent


def clean_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata without secrets, in keys and values at any depth."""
    return {strip_secrets(str(key)).text: _clean(value) for key, value in metadata.items()}


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return strip_secrets(value).text
    if isinstance(value, Mapping):
        return clean_metadata(value)
    if isinstance(value, list):
        return [_clean(part) for part in value]
    return value


def _find_thread(*, scope: Scope, agent: Agent, thread_id: str | None) -> Thread | None:
    if thread_id is None:
        return None
    thread = Thread.objects.in_scope(scope).filter(pk=thread_id, agent_id=agent.pk).first()
    if thread is None:
        raise ThreadMismatchError(field="thread_id")
    if thread.status == ThreadStatus.ARCHIVED:
        raise ThreadArchivedError
    return thread


def _check_facts(policy: Policy, request: RunRequest) -> None:
    if request.facts and not policy.is_on("allow_facts"):
        raise FactsNotAllowedError(field="facts")


def _is_bootstrap(thread: Thread | None, policy: Policy, now: datetime) -> bool:
    """Say whether this is a session's first turn, or the first after a long pause."""
    if thread is None or thread.run_count == 0:
        return True
    return now - thread.updated_at > timedelta(minutes=policy.count("idle_minutes"))


def _into_session(scope: Scope, thread: Thread) -> Scope:
    """Narrow the open transaction to one thread and return its scope. Cost: one statement."""
    session = scope.narrowed(thread_id=thread.pk)
    narrow_open_scope(session)
    return session


def _steps(
    now: datetime, marks: tuple[float, float, float], built: Assembled, scope: Scope
) -> list[dict[str, Any]]:
    """Return the trace of preparing: what each step did and how long it took."""
    started, scoped_at, assembled_at = marks
    ledger = built.ledger
    precheck = {
        "current_tokens": ledger.current_tokens,
        "target_budget": ledger.target_budget,
        "decision": ledger.decision,
        "candidate_count": ledger.candidate_count,
    }
    who = {"tenant_id": scope.tenant_id, "user_id": scope.user_id, "thread_id": scope.thread_id}
    shown = {"prompt_tokens": ledger.prompt_tokens, "items": len(built.items)}
    at = now.isoformat()
    scoped_ms = round((scoped_at - started) * 1000, 2)
    assembled_ms = round((assembled_at - scoped_at) * 1000, 2)
    return [
        {"seq": 1, "kind": "scope", "started_at": at, "ms": scoped_ms, "data": who},
        {"seq": 2, "kind": "precheck", "started_at": at, "ms": assembled_ms, "data": precheck},
        {"seq": 3, "kind": "assemble", "started_at": at, "ms": assembled_ms, "data": shown},
    ]
