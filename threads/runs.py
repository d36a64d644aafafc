"""A run's life in the database: accepted, then exactly one end. Each end is one transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import connection
from django.db.models.functions import Now

from governance.secrets import strip_secrets
from memory.conf import run_lease_seconds
from memory.errors import ConflictError, NotFoundError
from memory.models import EndUser
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.tokens import estimate
from threads.history import turn_tokens
from threads.models import (
    FINAL,
    Agent,
    Message,
    MessageRole,
    Run,
    RunOrigin,
    RunStatus,
    RunTrace,
    Thread,
)
from threads.titles import title_of

_UNFINISHED = (RunStatus.QUEUED, RunStatus.RUNNING)
_ANSWER_COLUMNS = (
    "status",
    "output",
    "model",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "is_cost_known",
    "finished_at",
    "lease_until",
    "turn_tokens",
    "message_count",
)
_TAKE_SEQ = """
    UPDATE threads_thread SET next_seq = next_seq + 1, run_count = run_count + 1,
        title = CASE WHEN title = '' AND next_seq = 1 THEN %s ELSE title END,
        updated_at = greatest(updated_at, %s)
    WHERE tenant_id = %s AND id = %s
    RETURNING next_seq - 1, title
"""
_ADD_STEPS = """
    UPDATE threads_runtrace SET steps = steps || (
        SELECT jsonb_agg(jsonb_build_object('seq', jsonb_array_length(steps) + place) || step
            ORDER BY place)
        FROM jsonb_array_elements(%s::jsonb) WITH ORDINALITY AS added (step, place))
    WHERE tenant_id = %s AND run_id = %s
"""


class RunFinishedError(ConflictError):
    """The run has already ended."""

    code = "run_finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What came in for one run, already free of secrets."""

    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a model's answer was, as it is to be stored. Tokens as counted, cost in USD."""

    text: str
    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal
    is_cost_known: bool
    steps: Sequence[Mapping[str, Any]] = ()


def new_thread(
    *, scope: Scope, agent: Agent, end_user: EndUser, text: str, now: datetime
) -> Thread:
    """Create the thread of a first question, inside the caller's transaction. Cost: one INSERT."""
    thread = Thread(
        tenant_id=scope.tenant_id,
        agent_id=agent.pk,
        end_user_id=end_user.pk,
        title=title_of(text),
        created_at=now,
        updated_at=now,
    )
    thread.save(force_insert=True)
    return thread


def take_seq(*, scope: Scope, thread: Thread, now: datetime, text: str = "") -> int:
    """Take the thread's next number under its row lock, which lasts to the transaction's end.

    Gapless: the number is given back when the transaction rolls back. A thread that was made
    without a title gets it here from its first input, `text`. Cost: one statement.

    Raises:
        NotFoundError: The thread is gone or out of scope.
    """
    with connection.cursor() as cursor:
        cursor.execute(_TAKE_SEQ, [title_of(text), now, scope.tenant_id, thread.pk])
        row = cursor.fetchone()
    if row is None:
        raise NotFoundError
    thread.title = row[1]
    return int(row[0])


def accept(
    *,
    scope: Scope,
    thread: Thread,
    question: Question,
    now: datetime,
    is_bootstrap: bool,
    context: Mapping[str, Any],
) -> Run:
    """Store an accepted run with its user's message, inside the caller's transaction.

    From here on the input is never lost: a run whose process dies is ended by the sweep when its
    lease runs out. Cost: three statements.
    """
    run = Run(
        tenant_id=scope.tenant_id,
        thread_id=thread.pk,
        agent_id=thread.agent_id,
        end_user_id=thread.end_user_id,
        seq=take_seq(scope=scope, thread=thread, now=now, text=question.text),
        status=RunStatus.RUNNING,
        origin=RunOrigin.RUN,
        input=question.text,
        metadata=dict(question.metadata),
        bootstrap=is_bootstrap,
        context=dict(context),
        key_id=scope.principal_id,
        turn_tokens=turn_tokens(input_text=question.text, output_text=""),
        message_count=1,
        created_at=now,
        # By the database's clock, which the sweep asks too: hosts need not agree.
        lease_until=Now() + timedelta(seconds=run_lease_seconds()),
    )
    run.save(force_insert=True)
    add_message(run=run, position=0, role=MessageRole.USER, content=question.text, at=now)
    return run


def add_message(
    *, run: Run, position: int, role: str, content: str, at: datetime, **extra: Any
) -> Message:
    """Store one message of a run, inside the caller's transaction. Cost: one INSERT."""
    message = Message(
        tenant_id=run.tenant_id,
        thread_id=run.thread_id,
        run_id=run.pk,
        end_user_id=run.end_user_id,
        position=position,
        role=role,
        content=content,
        token_count=estimate(content),
        created_at=at,
        **extra,
    )
    message.save(force_insert=True)
    return message


def store_trace(
    *,
    run: Run,
    messages: Sequence[Mapping[str, Any]],
    items: Sequence[Mapping[str, Any]],
    steps: Sequence[Mapping[str, Any]],
    now: datetime,
) -> None:
    """Store the prompt as sent and the steps that made it. Cost: one INSERT."""
    RunTrace(
        run_id=run.pk,
        tenant_id=run.tenant_id,
        end_user_id=run.end_user_id,
        messages=list(messages),
        items=list(items),
        steps=list(steps),
        created_at=now,
    ).save(force_insert=True)


def end(*, scope: Scope, run_id: str, status: RunStatus, now: datetime, **columns: Any) -> bool:
    """End a run that is still unfinished; False if it has ended already. Cost: one UPDATE.

    The one road to every final state but rejection at accept; the database's trigger holds the
    same state machine underneath.
    """
    ended = (
        Run.objects.in_scope(scope)
        .filter(pk=run_id, status__in=_UNFINISHED)
        .update(status=status, finished_at=now, lease_until=None, **columns)
    )
    return ended == 1


def succeed(*, scope: Scope, run_id: str, answered: Answered, now: datetime) -> Run | None:
    """Store a model's answer inside the caller's transaction; None if it has ended or is gone.

    The row lock taken first makes "succeeded" and what follows from it one act: whoever cancels or
    sweeps the run at the same moment comes before all of it or after all of it. Cost: four
    statements.
    """
    text = strip_secrets(answered.text).text
    run = Run.objects.in_scope(scope).select_for_update().defer("context").filter(pk=run_id).first()
    if run is None or run.status in FINAL:
        return None
    run.status = RunStatus.SUCCEEDED
    run.output = text
    run.model = answered.model
    run.input_tokens = answered.input_tokens
    run.output_tokens = answered.output_tokens
    run.cost_usd = answered.cost_usd
    run.is_cost_known = answered.is_cost_known
    run.finished_at = now
    run.lease_until = None
    run.turn_tokens = turn_tokens(input_text=run.input, output_text=text)
    run.message_count += 1
    run.save(update_fields=_ANSWER_COLUMNS)
    add_message(run=run, position=1, role=MessageRole.ASSISTANT, content=text, at=now)
    add_steps(scope=scope, run_id=run_id, steps=answered.steps)
    return run


def add_steps(*, scope: Scope, run_id: str, steps: Sequence[Mapping[str, Any]]) -> None:
    """Append steps to a run's trace, numbered on. Cost: one statement."""
    if not steps:
        return
    with connection.cursor() as cursor:
        added = json.dumps([dict(step) for step in steps])
        cursor.execute(_ADD_STEPS, [added, scope.tenant_id, run_id])


def read_run(*, scope: Scope, run_id: str) -> Run:
    """Return a run with its end user. Cost: one query.

    Raises:
        NotFoundError: There is none in scope.
    """
    run = Run.objects.in_scope(scope).select_related("end_user").filter(pk=run_id).first()
    if run is None:
        raise NotFoundError
    return run


def cancel_run(*, scope: Scope, run_id: str, now: datetime) -> Run:
    """Cancel a run at once; the process that drives it notices and closes its provider call.

    Raises:
        NotFoundError: There is none in scope.
        RunFinishedError: It has ended already.
    """
    with scoped_transaction(scope):
        read_run(scope=scope, run_id=run_id)
        if not end(scope=scope, run_id=run_id, status=RunStatus.CANCELLED, now=now):
            raise RunFinishedError
        return read_run(scope=scope, run_id=run_id)
