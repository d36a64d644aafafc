"""Importing conversations from JSON lines: good lines in, bad lines named, repeats without doubling."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from django.db import IntegrityError, transaction

from governance import audit
from governance.tenants import check_user_id, ensure_end_user
from memory import jobs
from memory.errors import InvalidInputError
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.learning.extraction import extract_imported_job
from threads.models import Agent, MessageRole, RunOrigin, Thread
from threads.titles import title_of
from threads.turns import RecordedMessage, RecordedTurn, record_turns

MAX_CONTENT_CHARS: Final = 200_000
_FLUSH_TURNS: Final = 400
_UNNAMED_THREAD: Final = "import"
_FIELDS: Final = frozenset(
    {"user_id", "thread", "created_at", "role", "content", "speaker", "external_id"}
)
_SHORT_FIELDS: Final = {"thread": 255, "speaker": 200, "external_id": 255}


class BadLineError(InvalidInputError):
    """A line of the file can not be imported."""

    code = "bad_line"


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A line that was left out, by its number from 1, and why."""

    number: int
    reason: str


@dataclass(slots=True, kw_only=True)
class ImportReport:
    """What an import did; `turns_known` were there already."""

    lines: int = 0
    turns_new: int = 0
    turns_known: int = 0
    threads: int = 0
    bad_lines: list[BadLine] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    user_id: str
    thread: str
    role: str
    content: str
    created_at: datetime | None
    speaker: str | None
    external_id: str | None


@dataclass(slots=True)
class _Pending:
    """One thread's lines that are not written yet, and how many of its turns came before."""

    lines: list[_Line] = field(default_factory=list)
    turns_begun: int = 0
    turns_written: int = 0


def import_conversations(
    *,
    scope: Scope,
    agent: Agent,
    lines: Iterable[str],
    now: datetime,
    learns: bool = False,
    on_progress: Callable[[ImportReport], None] | None = None,
) -> ImportReport:
    """Import a file's lines in order and return what became of them.

    A turn is a user line and what follows it until the next user line of its thread. Each batch of
    a thread's turns is one transaction; a crash loses none that were reported, and running again
    adds only what is missing. Cost: about six statements for each 200 turns of a thread.

    Args:
        scope: Names the tenant.
        agent: Whose threads they become.
        lines: JSON lines.
        now: The time of lines that have none.
        learns: Whether the threads are looked through for lasting facts of their people, which
            then wait as candidates; also what was imported before.
        on_progress: Told after each batch.
    """
    report = ImportReport()
    waiting: dict[tuple[str, str], _Pending] = {}
    for number, raw in enumerate(lines, start=1):
        if not raw.strip():
            continue
        report.lines += 1
        try:
            line = parse_line(raw)
        except BadLineError as error:
            report.bad_lines.append(BadLine(number=number, reason=error.detail))
            continue
        pending = waiting.setdefault((line.user_id, line.thread), _Pending())
        is_new_turn = line.role == MessageRole.USER or not pending.lines
        if is_new_turn and pending.turns_begun - pending.turns_written >= _FLUSH_TURNS:
            _flush(scope, agent, pending, report, now, learns=learns)
            if on_progress:
                on_progress(report)
        pending.turns_begun += is_new_turn
        pending.lines.append(line)
    for pending in waiting.values():
        _flush(scope, agent, pending, report, now, learns=learns)
        if on_progress:
            on_progress(report)
    report.threads = len(waiting)
    _audit(scope, agent, report, now)
    return report


def parse_line(raw: str) -> _Line:
    """Return one line of the file, checked.

    Raises:
        BadLineError: It is no JSON object, has an unknown field, or a value does not fit.
    """
    try:
        data = json.loads(raw.removeprefix("\ufeff"), object_pairs_hook=_once_each)
    except (ValueError, RecursionError) as error:
        raise BadLineError("not JSON") from error
    if not isinstance(data, dict):
        raise BadLineError("not a JSON object")
    data = {name: value for name, value in data.items() if value is not None}
    unknown = sorted(set(data) - _FIELDS)
    if unknown:
        raise BadLineError(f"unknown field {unknown[0][:40]!r}")
    not_text = sorted(name for name, value in data.items() if not isinstance(value, str))
    if not_text:
        raise BadLineError(f"{not_text[0]} is not text")
    return _checked(data)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, whose names must differ: the second user_id would win without a word."""
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadLineError(f"{twice[:40]!r} stands twice")
    return dict(pairs)


def _checked(data: dict[str, str]) -> _Line:
    for name, value in data.items():
        _check_text(name, value)
    role = data.get("role", MessageRole.USER)
    if role not in MessageRole.values:
        raise BadLineError(f"role is one of: {', '.join(MessageRole.values)}")
    content = data.get("content", "")
    if not 1 <= len(content) <= MAX_CONTENT_CHARS or not content.strip():
        raise BadLineError(f"content has 1 to {MAX_CONTENT_CHARS} characters")
    try:
        check_user_id(data.get("user_id", ""))
    except InvalidInputError as error:
        raise BadLineError(error.detail) from error
    return _Line(
        user_id=data["user_id"],
        thread=data.get("thread", _UNNAMED_THREAD),
        role=role,
        content=content,
        created_at=_time(data.get("created_at")),
        speaker=data.get("speaker"),
        external_id=data.get("external_id"),
    )


def _check_text(name: str, value: str) -> None:
    if "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise BadLineError(f"{name} holds a character that can not be stored")
    limit = _SHORT_FIELDS.get(name)
    if limit is not None and not 1 <= len(value) <= limit:
        raise BadLineError(f"{name} has 1 to {limit} characters")


def _time(raw: str | None) -> datetime | None:
    if raw is None:
        return None
    try:
        at = datetime.fromisoformat(raw)
    except ValueError as error:
        raise BadLineError("created_at is not an ISO 8601 time") from error
    if at.tzinfo is None:
        raise BadLineError("created_at has no time zone; end it with Z or an offset")
    if not 1900 <= at.year <= 9998:
        raise BadLineError("created_at lies outside the years 1900 to 9998")
    return at.astimezone(UTC)


def _flush(
    scope: Scope,
    agent: Agent,
    pending: _Pending,
    report: ImportReport,
    now: datetime,
    *,
    learns: bool,
) -> None:
    """Write the complete turns of one thread in one transaction."""
    if not pending.lines:
        return
    first = pending.lines[0]
    turns = list(_turns(agent, pending))
    with scoped_transaction(scope):
        person = ensure_end_user(scope=scope, user_id=first.user_id, now=now)
        thread = _thread(scope, agent, person.pk, first, now)
        made = record_turns(
            scope=scope, thread=thread, turns=turns, origin=RunOrigin.IMPORT, now=now
        )
        if learns:
            job = extract_imported_job(thread_id=thread.pk, end_user_id=person.pk)
            jobs.enqueue(scope=scope, job=job, now=now)
    report.turns_new += len(made)
    report.turns_known += len(turns) - len(made)
    pending.turns_written += len(turns)
    pending.lines = []


def _turns(agent: Agent, pending: _Pending) -> Iterator[RecordedTurn]:
    group: list[_Line] = []
    ordinal = pending.turns_written
    for line in pending.lines:
        if group and line.role == MessageRole.USER:
            yield _turn(agent, group, ordinal)
            group, ordinal = [], ordinal + 1
        group.append(line)
    yield _turn(agent, group, ordinal)


def _turn(agent: Agent, group: list[_Line], ordinal: int) -> RecordedTurn:
    first = group[0]
    is_asked = first.role == MessageRole.USER
    answers = [line.content for line in group if line.role == MessageRole.ASSISTANT]
    return RecordedTurn(
        input=first.content if is_asked else "",
        output="\n\n".join(answers),
        created_at=first.created_at,
        external_id=first.external_id,
        import_key=_key(agent, first, ordinal),
        messages=tuple(
            RecordedMessage(
                role=line.role,
                content=line.content,
                speaker=line.speaker,
                external_id=line.external_id,
                created_at=line.created_at,
            )
            for line in group
        ),
    )


def _key(agent: Agent, first: _Line, ordinal: int) -> str:
    """Return the same hash for the same turn of the same file, whenever it is imported."""
    place: list[Any] = [agent.pk, first.user_id, first.thread]
    place += [first.external_id] if first.external_id else [ordinal, first.role, first.content]
    return hashlib.sha256(json.dumps(place).encode()).hexdigest()


def _thread(scope: Scope, agent: Agent, end_user_id: str, first: _Line, now: datetime) -> Thread:
    wanted = {"agent_id": agent.pk, "end_user_id": end_user_id, "external_key": first.thread}
    rows = Thread.objects.in_scope(scope).filter(**wanted)
    found = rows.first()
    if found is not None:
        return found
    at = first.created_at or now
    thread = Thread(
        tenant_id=scope.tenant_id,
        title=title_of(first.content),
        created_at=at,
        updated_at=at,
        **wanted,
    )
    try:
        with transaction.atomic():
            thread.save(force_insert=True)
    except IntegrityError:
        return rows.get()
    return thread


def _audit(scope: Scope, agent: Agent, report: ImportReport, now: datetime) -> None:
    counts: dict[str, int | str | bool | list[str]] = {
        "turns_new": report.turns_new,
        "turns_known": report.turns_known,
        "bad_lines": len(report.bad_lines),
    }
    with scoped_transaction(scope):
        audit.record(
            scope=scope,
            action="conversations_imported",
            target_kind="agent",
            target_id=agent.pk,
            now=now,
            detail=counts,
        )
