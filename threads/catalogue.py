"""Looking up and tending threads, runs and messages, as far as a principal's grants reach.

Queries are decided (scoped) but not run: a list runs them page by page in a transaction.
"""

from __future__ import annotations

from datetime import datetime

from governance import access
from governance.access import ForbiddenError, Principal
from governance.permissions import Permission
from governance.tenants import ensure_end_user, find_end_user
from memory.errors import InvalidInputError, NotFoundError
from memory.models import EndUser
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads import runs, turns
from threads.forest.listing import ShownSummary, shown_summary
from threads.models import (
    Agent,
    Artifact,
    Message,
    Run,
    RunTrace,
    Thread,
    ThreadStatus,
    ThreadStrategy,
)
from threads.turns import RecordedTurn


class RunMismatchError(InvalidInputError):
    """context.run_id names no run of this agent and user."""

    code = "run_mismatch"


class ContinueNeedsStreamError(InvalidInputError):
    """Continuing on a run's artefacts works on the stream path only."""

    code = "continue_needs_stream"


class UnknownAgentError(InvalidInputError):
    """There is no such agent."""

    code = "unknown_agent"


def require_known_agent(*, scope: Scope, agent_id: str | None) -> None:
    """Let pass no agent, or one of the tenant. Cost: one query.

    Raises:
        UnknownAgentError: There is none in scope.
    """
    with scoped_transaction(scope):
        if agent_id and not Agent.objects.in_scope(scope).filter(pk=agent_id).exists():
            raise UnknownAgentError(field="agent_id")


def agents_of(*, scope: Scope) -> ScopedQuerySet[Agent]:
    """Return the query of a tenant's agents, deactivated ones too."""
    return Agent.objects.in_scope(scope)


def create_thread(
    *, principal: Principal, agent_id: str, user_id: str, title: str, now: datetime
) -> Thread:
    """Open a thread of a person with an agent; the person is created on first write.

    Raises:
        NotFoundError: The agent is unknown, deactivated, or not this principal's to run.
        ForbiddenError: The principal may not act for this person.
        ReservedUserIdError: A new person's id can not be a tenant's own.
    """
    scope = access.tenant_scope(principal)
    with scoped_transaction(scope):
        agent = _agent(principal, scope, agent_id)
        if not agent.is_active:
            raise NotFoundError
        person = _person_to_write_for(principal, scope, user_id, now)
        thread = Thread(
            tenant_id=scope.tenant_id,
            agent=agent,
            end_user=person,
            title=" ".join(title.split()),
            created_at=now,
            updated_at=now,
        )
        thread.save(force_insert=True)
    return thread


def threads_of(
    *, principal: Principal, agent_id: str, user_id: str | None, status: str | None
) -> ScopedQuerySet[Thread]:
    """Return the query of an agent's threads, of one person or status if named.

    An unknown person has none. Cost: up to two queries here.

    Raises:
        NotFoundError: The agent is unknown, or not this principal's to run.
    """
    scope = access.tenant_scope(principal)
    with scoped_transaction(scope):
        _agent(principal, scope, agent_id)
        rows = Thread.objects.in_scope(scope).filter(
            agent_id=agent_id, end_user__erasing_at__isnull=True
        )
        rows = rows.select_related("end_user")
        if not _acts_for_anybody(principal):
            return rows.none()
        if user_id is not None:
            person = find_end_user(scope=scope, user_id=user_id)
            rows = rows.filter(end_user=person) if person else rows.none()
    return rows.filter(status=status) if status else rows


def read_thread(*, principal: Principal, thread_id: str) -> Thread:
    """Return a thread with its agent and person. Cost: one query, and the scope's statements.

    Raises:
        NotFoundError: It is unknown, or out of this principal's reach.
    """
    scope = access.tenant_scope(principal)
    with scoped_transaction(scope):
        return _thread(principal, scope, thread_id)


def rename_thread(*, principal: Principal, thread_id: str, title: str, now: datetime) -> Thread:
    """Give a thread a title.

    Raises:
        NotFoundError: As `read_thread`.
    """
    return _change(principal, thread_id, now, title=" ".join(title.split())[:200])


def archive_thread(*, principal: Principal, thread_id: str, now: datetime) -> Thread:
    """Hide a thread from the default list and refuse it new runs; again changes nothing.

    Raises:
        NotFoundError: As `read_thread`.
    """
    return _change(principal, thread_id, now, status=ThreadStatus.ARCHIVED)


def unarchive_thread(*, principal: Principal, thread_id: str, now: datetime) -> Thread:
    """Undo `archive_thread`; again changes nothing.

    Raises:
        NotFoundError: As `read_thread`.
    """
    return _change(principal, thread_id, now, status=ThreadStatus.ACTIVE)


def runs_of(*, principal: Principal, thread_id: str) -> ScopedQuerySet[Run]:
    """Return the query of a thread's runs.

    Raises:
        NotFoundError: As `read_thread`.
    """
    thread = read_thread(principal=principal, thread_id=thread_id)
    scope = access.tenant_scope(principal)
    rows = Run.objects.in_scope(scope).filter(thread_id=thread.pk).select_related("end_user")
    return runs.with_artifacts(rows, scope=scope)


def messages_of(*, principal: Principal, thread_id: str) -> ScopedQuerySet[Message]:
    """Return the query of a thread's messages, with their runs' places.

    Raises:
        NotFoundError: As `read_thread`.
    """
    thread = read_thread(principal=principal, thread_id=thread_id)
    scope = access.tenant_scope(principal)
    return Message.objects.in_scope(scope).filter(thread_id=thread.pk).select_related("run")


def read_message(*, principal: Principal, message_id: str) -> Message:
    """Return a message. Cost: two queries.

    Raises:
        NotFoundError: It is unknown, or out of this principal's reach.
    """
    scope = access.tenant_scope(principal)
    with scoped_transaction(scope):
        message = Message.objects.in_scope(scope).filter(pk=message_id).first()
        if message is None:
            raise NotFoundError
        _thread(principal, scope, message.thread_id)
    return message


def read_summary(*, principal: Principal, thread_id: str) -> ShownSummary:
    """Return a thread's summary and nodes, empty if it has none yet. Cost: four queries.

    Raises:
        NotFoundError: As `read_thread`.
    """
    thread = read_thread(principal=principal, thread_id=thread_id)
    scope = access.tenant_scope(principal)
    scope = scope.narrowed(user_id=thread.end_user_id, thread_id=thread.pk)
    is_lossless = thread.agent.thread_strategy == ThreadStrategy.LOSSLESS
    with scoped_transaction(scope):
        return shown_summary(scope=scope, thread_id=thread.pk, is_lossless=is_lossless)


def read_run(*, principal: Principal, run_id: str) -> Run:
    """Return a run with its agent and person. Cost: two queries.

    Raises:
        NotFoundError: It is unknown, or out of this principal's reach.
    """
    scope = access.tenant_scope(principal)
    with scoped_transaction(scope):
        run = runs.read_run(scope=scope, run_id=run_id)
        run.thread = _thread(principal, scope, run.thread_id)
    return run


def read_artifact(*, principal: Principal, run_id: str, artifact_id: str) -> Artifact:
    """Return a file that a run wrote. Cost: two queries.

    Raises:
        NotFoundError: The run has no such file, or as `read_run`.
    """
    scope = access.tenant_scope(principal)
    with scoped_transaction(scope):
        artifact = Artifact.objects.in_scope(scope).filter(pk=artifact_id, run_id=run_id).first()
        if artifact is None:
            raise NotFoundError
        _thread(principal, scope, artifact.thread_id)
    return artifact


def record_turn(
    *, principal: Principal, thread_id: str, turn: RecordedTurn, now: datetime
) -> tuple[Run, bool]:
    """Record a turn made elsewhere; return its run and whether it is new.

    Raises:
        NotFoundError: The thread, or the run that this external_id names, is out of reach.
        ThreadArchivedError: The thread is archived.
    """
    read_thread(principal=principal, thread_id=thread_id)
    scope = access.tenant_scope(principal)
    with scoped_transaction(scope):
        run, is_new = turns.record_turn(scope=scope, thread_id=thread_id, turn=turn, now=now)
        _thread(principal, scope, run.thread_id)
    return run, is_new


def read_trace(*, principal: Principal, run_id: str) -> RunTrace:
    """Return how a run's prompt came to be; empty for turns made elsewhere. Cost: three queries.

    Raises:
        NotFoundError: As `read_run`.
    """
    run = read_run(principal=principal, run_id=run_id)
    scope = access.tenant_scope(principal)
    with scoped_transaction(scope):
        stored = RunTrace.objects.in_scope(scope).filter(run_id=run.pk).first()
    trace = stored or RunTrace(tenant_id=scope.tenant_id)
    trace.run = run
    return trace


def cancel_run(*, principal: Principal, run_id: str, now: datetime) -> Run:
    """Cancel a run that is on its way.

    Raises:
        NotFoundError: As `read_run`.
        RunFinishedError: It has ended already.
    """
    read_run(principal=principal, run_id=run_id)
    return runs.cancel_run(scope=access.tenant_scope(principal), run_id=run_id, now=now)


def require_continuable(*, principal: Principal, agent_id: str, user_id: str, run_id: str) -> None:
    """Let pass a run of this very agent and person, whose artefacts another run may continue.

    Raises:
        NotFoundError: The agent is unknown, or not this principal's to run.
        RunMismatchError: There is no such run; another tenant's, agent's or person's looks alike.
    """
    scope = access.tenant_scope(principal)
    with scoped_transaction(scope):
        _agent(principal, scope, agent_id)
        person = find_end_user(scope=scope, user_id=user_id)
        rows = Run.objects.in_scope(scope).filter(pk=run_id, agent_id=agent_id)
        if person is None or not rows.filter(end_user=person).exists():
            raise RunMismatchError(field="context.run_id")


def _change(principal: Principal, thread_id: str, now: datetime, **values: str) -> Thread:
    scope = access.tenant_scope(principal)
    with scoped_transaction(scope):
        thread = _thread(principal, scope, thread_id)
        changed = {name: value for name, value in values.items() if getattr(thread, name) != value}
        if changed:
            rows = Thread.objects.in_scope(scope).filter(pk=thread.pk)
            rows.update(**changed, updated_at=now)
            return _thread(principal, scope, thread_id)
    return thread


def _agent(principal: Principal, scope: Scope, agent_id: str) -> Agent:
    agent = Agent.objects.in_scope(scope).filter(pk=agent_id).first()
    if agent is None:
        raise NotFoundError
    access.require_agent(principal=principal, agent=agent, agent_id=agent.pk)
    return agent


def _thread(principal: Principal, scope: Scope, thread_id: str) -> Thread:
    rows = Thread.objects.in_scope(scope).select_related("agent", "end_user")
    thread = rows.filter(pk=thread_id).first()
    if thread is None:
        raise NotFoundError
    access.require_agent(principal=principal, agent=thread.agent, agent_id=thread.agent_id)
    try:
        access.scope_for_user(principal=principal, end_user=thread.end_user)
    except ForbiddenError as error:
        raise NotFoundError from error
    return thread


def _acts_for_anybody(principal: Principal) -> bool:
    return principal.end_user_id is not None or Permission.ACT_FOR in principal.permissions


def _person_to_write_for(
    principal: Principal, scope: Scope, user_id: str, now: datetime
) -> EndUser:
    if principal.end_user_id is None:
        person = ensure_end_user(scope=scope, user_id=user_id, now=now)
    else:
        found = find_end_user(scope=scope, user_id=user_id)
        if found is None:
            raise ForbiddenError("This key is limited to another user.")
        person = found
    access.scope_for_user(principal=principal, end_user=person)
    return person
