"""Where a run takes place: agent, person, policy, thread; and what keeps it out.

Everything here happens inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import OuterRef, Subquery
from django.db.models.functions import Coalesce

from governance import access
from governance.access import Principal
from governance.behaviour.live import with_samples
from governance.policy import with_overrides
from governance.policy_rules import Policy, effective
from governance.secrets import strip_secrets
from governance.tenants import ensure_end_user, find_end_user
from memory.errors import ConflictError, InvalidInputError, NotFoundError
from memory.models import EndUser
from memory.rls import narrow_open_scope
from memory.scope import Scope
from threads import runs
from threads.history import EMPTY_VIEW, ThreadView, read_view
from threads.models import Agent, Run, Thread, ThreadStatus, ThreadStrategy
from threads.request import RunRequest
from threads.runs import Question
from threads.token_fits import with_token_fit


class ThreadMismatchError(InvalidInputError):
    """This thread_id does not belong to this agent and user."""

    code = "thread_mismatch"


class ThreadArchivedError(ConflictError):
    """The thread is archived; unarchive it first."""

    code = "thread_archived"


class FactsNotAllowedError(InvalidInputError):
    """This tenant's policy takes no facts with a request."""

    code = "facts_not_allowed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Who asks whom, and where; `thread` is None for a first question."""

    scope: Scope
    agent: Agent
    end_user: EndUser
    thread: Thread | None
    policy: Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a prompt is assembled for; `scope` names the person and the thread, as far as there are.

    `thread_id` is None where nothing was said yet.
    """

    scope: Scope
    agent: Agent
    policy: Policy
    thread_id: str | None
    view: ThreadView
    is_bootstrap: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The thread of a run, and the setting of its prompt in the scope of that thread alone."""

    setting: Setting
    end_user: EndUser
    thread: Thread

    @property
    def scope(self) -> Scope:
        """The scope of the thread."""
        return self.setting.scope


def ask(request: RunRequest) -> Question:
    """Return what was asked, free of secrets from here on."""
    return Question(
        text=strip_secrets(request.input).text,
        metadata=clean_metadata(request.metadata),
        continues_run_id=request.continues_run_id,
    )


def find_place(principal: Principal, agent_id: str, request: RunRequest, now: datetime) -> Place:
    """Find agent, person, thread and policy, and check that they go together. Three queries."""
    wide = access.tenant_scope(principal)
    agent = find_agent(principal=principal, scope=wide, agent_id=agent_id)
    end_user = ensure_end_user(scope=wide, user_id=request.user_id, now=now)
    scope = access.scope_for_user(principal=principal, end_user=end_user)
    thread = _find_thread(scope=scope, agent=agent, thread_id=request.thread_id)
    policy = _policy_of(agent)
    _check_facts(policy, request)
    return Place(scope=scope, agent=agent, end_user=end_user, thread=thread, policy=policy)


def look(principal: Principal, agent_id: str, request: RunRequest, now: datetime) -> Setting:
    """Find agent, person, thread and policy without making any; narrow to the thread if named.

    An archived thread can be looked at.

    Raises:
        NotFoundError: The agent is unknown, inactive, or not this principal's to run.
        ThreadMismatchError: The thread is unknown or another tenant's, agent's or user's.
        ForbiddenError: The principal may not act for this user.
        FactsNotAllowedError: The policy takes no facts with a request.
    """
    wide = access.tenant_scope(principal)
    agent = find_agent(principal=principal, scope=wide, agent_id=agent_id)
    policy = _policy_of(agent)
    _check_facts(policy, request)
    person = find_end_user(scope=wide, user_id=request.user_id)
    if person is None:
        access.require_act_for_anybody(principal=principal)
        if request.thread_id is not None:
            raise ThreadMismatchError(field="thread_id")
        scope, thread = wide, None
    else:
        scope = access.scope_for_user(principal=principal, end_user=person)
        thread = _find_thread(
            scope=scope, agent=agent, thread_id=request.thread_id, may_be_archived=True
        )
    if person is not None:
        scope = _into_session(scope, thread)
    return Setting(
        scope=scope,
        agent=agent,
        policy=policy,
        thread_id=thread.pk if thread else None,
        view=_view(scope, agent, thread),
        is_bootstrap=_is_bootstrap(thread, policy, now),
    )


def _policy_of(agent: Agent) -> Policy:
    return effective(getattr(agent, "tenant_overrides", None) or {}, agent.policy)


def enter_session(place: Place, question: Question, now: datetime) -> Session:
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
    setting = Setting(
        scope=scope,
        agent=place.agent,
        policy=place.policy,
        thread_id=known.pk if known else None,
        view=_view(scope, place.agent, known),
        is_bootstrap=_is_bootstrap(known, place.policy, now),
    )
    return Session(setting=setting, end_user=place.end_user, thread=thread)


def _view(scope: Scope, agent: Agent, known: Thread | None) -> ThreadView:
    """Read what the strategy rolling needs; the strategy lossless reads its own."""
    if known is None or agent.thread_strategy == ThreadStrategy.LOSSLESS:
        return EMPTY_VIEW
    return read_view(scope=scope, thread_id=known.pk)


def find_agent(*, principal: Principal, scope: Scope, agent_id: str) -> Agent:
    """Return an agent this principal may run, with provider, policy and samples. One query.

    Raises:
        NotFoundError: Unknown, inactive and forbidden look the same.
    """
    rows = with_overrides(Agent.objects.in_scope(scope), scope=scope)
    rows = with_samples(rows, scope=scope)
    agent = (
        with_token_fit(rows, scope=scope)
        .select_related("provider")
        .filter(pk=agent_id, is_active=True)
        .first()
    )
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


def _find_thread(
    *, scope: Scope, agent: Agent, thread_id: str | None, may_be_archived: bool = False
) -> Thread | None:
    if thread_id is None:
        return None
    last = Run.objects.in_scope(scope).filter(thread_id=OuterRef("pk")).order_by("-seq")
    rows = Thread.objects.in_scope(scope).filter(pk=thread_id, agent_id=agent.pk)
    ended = Coalesce("finished_at", "created_at")
    thread = rows.annotate(last_turn_at=Subquery(last.values_list(ended)[:1])).first()
    if thread is None:
        raise ThreadMismatchError(field="thread_id")
    if thread.status == ThreadStatus.ARCHIVED and not may_be_archived:
        raise ThreadArchivedError
    return thread


def _check_facts(policy: Policy, request: RunRequest) -> None:
    if request.facts and not policy.is_on("allow_facts"):
        raise FactsNotAllowedError(field="facts")


def _is_bootstrap(thread: Thread | None, policy: Policy, now: datetime) -> bool:
    """Say whether this is a session's first turn, or the first after a long pause."""
    last_at = getattr(thread, "last_turn_at", None)
    return last_at is None or now - last_at > timedelta(minutes=policy.count("idle_minutes"))


def _into_session(scope: Scope, thread: Thread | None) -> Scope:
    """Turn the open transaction to a person, that person's teams and one thread, if there is one.

    Cost: two statements.
    """
    session = access.with_teams(scope.narrowed(thread_id=thread.pk if thread else None))
    narrow_open_scope(session)
    return session
