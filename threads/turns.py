"""Turns made elsewhere: recorded one by one over the API, or by the thousand from a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db import IntegrityError, connection

from governance.pii import pii_tags
from governance.policy import policy_for
from governance.secrets import strip_secrets
from memory import jobs
from memory.errors import InvalidInputError, NotFoundError
from memory.ids import new_id
from memory.retrieval.words import message_terms
from memory.rls import narrow_open_scope, scoped_transaction
from memory.scope import Scope
from memory.tokens import estimate
from threads.follow_up import follow_up_jobs
from threads.history import turn_tokens, uncovered_totals
from threads.models import (
    Agent,
    Message,
    MessageRole,
    Run,
    RunOrigin,
    RunStatus,
    Thread,
    ThreadStatus,
)
from threads.places import ThreadArchivedError
from threads.runs import read_run
from threads.titles import title_of
from threads.tool_rounds import recorded_steps, steps_tokens

_BATCH: Final = 200
_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_AHEAD: Final = timedelta(days=1)
_MOST_NAME_CHARS: Final = 200
_MOST_ID_CHARS: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedMessage:
    """One utterance of a recorded turn."""

    role: str
    content: str
    tool_call_id: str | None = None
    name: str | None = None
    speaker: str | None = None
    external_id: str | None = None
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTurn:
    """A turn that happened elsewhere.

    `messages` is its whole sequence; empty, it is the input and the output. `created_at` None means
    the time of recording, and is marked so.
    """

    input: str
    output: str
    status: str = RunStatus.SUCCEEDED
    created_at: datetime | None = None
    messages: tuple[RecordedMessage, ...] = ()
    external_id: str | None = None
    import_key: str | None = None


def record_turn(
    *, scope: Scope, thread_id: str, turn: RecordedTurn, now: datetime
) -> tuple[Run, bool]:
    """Record one turn and return its run, and whether it is new.

    A repeat with the same `external_id` returns the first run, also one recorded at the same
    moment in another thread. Cost: about ten statements.

    Raises:
        NotFoundError: There is no such thread in scope.
        ThreadArchivedError: The thread is archived.
        InvalidInputError: The external_id holds a secret, or the time lies before 1970 or more
            than a day ahead.
    """
    if turn.created_at and not _EARLIEST <= turn.created_at <= now + _MOST_AHEAD:
        detail = "created_at lies between 1970-01-01 and one day from now."
        raise InvalidInputError(detail, field="created_at")
    try:
        return _record_one(scope, thread_id, turn, now)
    except IntegrityError:
        # Another thread's turn took the id between the look and the insert.
        return _record_one(scope, thread_id, turn, now)


def _record_one(
    scope: Scope, thread_id: str, turn: RecordedTurn, now: datetime
) -> tuple[Run, bool]:
    with scoped_transaction(scope):
        thread = Thread.objects.in_scope(scope).filter(pk=thread_id).first()
        if thread is None:
            raise NotFoundError
        if thread.status == ThreadStatus.ARCHIVED:
            raise ThreadArchivedError
        made = record_turns(
            scope=scope, thread=thread, turns=(turn,), origin=RunOrigin.API, now=now
        )
        if made:
            return read_run(scope=scope, run_id=made[0].pk), True
        rows = Run.objects.in_scope(scope).select_related("end_user")
        first = rows.filter(external_id=turn.external_id).first()
        if first is None:
            raise NotFoundError
        return first, False


def record_turns(
    *, scope: Scope, thread: Thread, turns: Sequence[RecordedTurn], origin: RunOrigin, now: datetime
) -> list[Run]:
    """Record turns of one thread in order, inside the caller's transaction; repeats are skipped.

    The thread's row lock is held from here to the transaction's end, so two recorders of the same
    turns make one of each. Cost: about six statements for each 200 turns.

    Raises:
        InvalidInputError: An external_id holds a secret: it must be stored as it is, so it can not.
    """
    for turn in turns:
        _check_external_id(turn)
    session = scope.narrowed(user_id=thread.end_user_id, thread_id=thread.pk)
    narrow_open_scope(session)
    made: list[Run] = []
    for start in range(0, len(turns), _BATCH):
        made += _record_batch(session, thread, turns[start : start + _BATCH], origin, now)
    if made:
        _touch_thread(session, thread, made, now)
        _follow_up(session, thread, made[-1], now)
    narrow_open_scope(scope)
    return made


def _check_external_id(turn: RecordedTurn) -> None:
    if turn.external_id and strip_secrets(turn.external_id).kinds:
        raise InvalidInputError("An external_id must not hold a secret.", field="external_id")


def _record_batch(
    scope: Scope,
    thread: Thread,
    turns: Sequence[RecordedTurn],
    origin: RunOrigin,
    now: datetime,
) -> list[Run]:
    Thread.objects.in_scope(scope).select_for_update(no_key=True).get(pk=thread.pk)
    wanted = _unknown(scope, turns)
    if not wanted:
        return []
    first_seq = _take_seqs(scope, thread, len(wanted))
    runs = [_run(thread, turn, origin, first_seq + place, now) for place, turn in enumerate(wanted)]
    messages = [_messages(run, turn) for run, turn in zip(runs, wanted, strict=True)]
    for run, said in zip(runs, messages, strict=True):
        _note_tools(run, said)
    Run.objects.bulk_create(runs)
    Message.objects.bulk_create(message for said in messages for message in said)
    return runs


def _unknown(scope: Scope, turns: Sequence[RecordedTurn]) -> list[RecordedTurn]:
    """Return the turns that no run holds yet, each once."""
    tenant_wide = Scope(tenant_ids=scope.tenant_ids, principal_id=scope.principal_id)
    external = [turn.external_id for turn in turns if turn.external_id]
    imported = [turn.import_key for turn in turns if turn.import_key]
    known: set[str | None] = set()
    narrow_open_scope(tenant_wide)
    rows = Run.objects.in_scope(tenant_wide)
    if external:
        known.update(rows.filter(external_id__in=external).values_list("external_id", flat=True))
    if imported:
        known.update(rows.filter(import_key__in=imported).values_list("import_key", flat=True))
    narrow_open_scope(scope)
    fresh = []
    for turn in turns:
        keys = {key for key in (turn.external_id, turn.import_key) if key}
        if not keys & known:
            fresh.append(turn)
            known |= keys
    return fresh


def _take_seqs(scope: Scope, thread: Thread, count: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE threads_thread SET next_seq = next_seq + %s, run_count = run_count + %s"
            " WHERE tenant_id = %s AND id = %s RETURNING next_seq - %s",
            [count, count, scope.tenant_id, thread.pk, count],
        )
        row = cursor.fetchone()
    if row is None:
        raise NotFoundError
    return int(row[0])


def _run(thread: Thread, turn: RecordedTurn, origin: RunOrigin, seq: int, now: datetime) -> Run:
    question, answer = strip_secrets(turn.input).text, strip_secrets(turn.output).text
    at = turn.created_at or now
    is_failed = turn.status == RunStatus.FAILED
    return Run(
        id=new_id("run"),
        tenant_id=thread.tenant_id,
        thread_id=thread.pk,
        agent_id=thread.agent_id,
        end_user_id=thread.end_user_id,
        seq=seq,
        status=turn.status,
        origin=origin,
        input=question,
        output=answer,
        error_code="recorded_as_failed" if is_failed else None,
        external_id=turn.external_id,
        import_key=turn.import_key,
        is_time_assumed=turn.created_at is None,
        turn_tokens=turn_tokens(input_text=question, output_text="" if is_failed else answer),
        message_count=len(_sequence(turn)),
        created_at=at,
        finished_at=at,
    )


def _sequence(turn: RecordedTurn) -> tuple[RecordedMessage, ...]:
    if turn.messages:
        return turn.messages
    user = RecordedMessage(role=MessageRole.USER, content=turn.input)
    if not turn.output:
        return (user,)
    return (user, RecordedMessage(role=MessageRole.ASSISTANT, content=turn.output))


def _messages(run: Run, turn: RecordedTurn) -> list[Message]:
    rows = []
    for position, said in enumerate(_sequence(turn)):
        content = strip_secrets(said.content).text
        rows.append(
            Message(
                tenant_id=run.tenant_id,
                thread_id=run.thread_id,
                run_id=run.pk,
                end_user_id=run.end_user_id,
                position=position,
                role=said.role,
                content=content,
                name=_stripped(said.name),
                tool_call_id=_stripped(said.tool_call_id),
                speaker=_stripped(said.speaker),
                external_id=_stripped(said.external_id, most=_MOST_ID_CHARS),
                token_count=estimate(content),
                terms=message_terms(content),
                pii=pii_tags(content),
                created_at=said.created_at or run.created_at,
            )
        )
    return rows


def _note_tools(run: Run, said: Sequence[Message]) -> None:
    """Have a run's turn show the tools it used; a failed one shows nothing."""
    if run.status == RunStatus.SUCCEEDED:
        run.tool_steps = recorded_steps(said)
        run.turn_tokens += steps_tokens(run.tool_steps)


def _stripped(name: str | None, *, most: int = _MOST_NAME_CHARS) -> str | None:
    """Return a name without secrets, within its column."""
    return strip_secrets(name).text[:most] if name else name


def _touch_thread(scope: Scope, thread: Thread, made: Sequence[Run], now: datetime) -> None:
    """Note the last turn, never in the future: there it would lead every list until its day."""
    fresh = Thread.objects.in_scope(scope).get(pk=thread.pk)
    fresh.updated_at = max(fresh.updated_at, min(now, made[-1].created_at))
    if not fresh.title:
        fresh.title = title_of(made[0].input or made[0].output)
    fresh.save(update_fields=["updated_at", "title"])


def _follow_up(scope: Scope, thread: Thread, last: Run, now: datetime) -> None:
    """Ask for the jobs that the thread needs now, if any."""
    agent = Agent.objects.in_scope(scope).get(pk=thread.agent_id)
    wanted = follow_up_jobs(
        scope=scope,
        agent=agent,
        policy=policy_for(scope=scope, agent_overrides=agent.policy),
        last=last,
        uncovered=lambda: uncovered_totals(scope=scope, thread_id=thread.pk),
    )
    jobs.enqueue_all(scope=scope, wanted=wanted, now=now)
