"""Writing a person's export: JSON lines from one snapshot of the database, in little memory."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import IO, Any, Final

from django.apps import apps
from django.db import connection, models, transaction
from django.db.models import F, Q

from governance import audit
from governance.export.map import ABOUT, EXPORTED, Lines
from governance.models import Erasure
from memory.models import EndUser
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope

VERSION: Final = 1
EXPORTED_ACTION: Final = "person_exported"
_BATCH: Final = 500
_SPOOL_BYTES: Final = 1024 * 1024
_SNAPSHOT: Final = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A finished export: its bytes in an unnamed file, from the start; whoever reads it closes it.

    Attributes:
        size: Bytes.
        counts: Lines by type, without the first and the last.
    """

    file: IO[bytes]
    size: int
    counts: dict[str, int]


def export_person(
    *, scope: Scope, person: EndUser | None, user_id: str, now: datetime, via: str
) -> Export:
    """Write all that is known of a person, audited; an unknown person has two lines.

    All lines are of one moment (a read-only snapshot). The file has no name and is gone when it is
    closed, or its process ends. Cost: a query a table and three a thread; 1 MB of memory.

    Args:
        scope: The tenant's, or already this person's.
        person: None for somebody nobody knows.
        user_id: As it was asked for, for the first line.
        now: When.
        via: How it is fetched, for the audit log: `api`, `link`, `command`, `admin`.
    """
    file = tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)  # noqa: SIM115 - handed on
    digest, counts = hashlib.sha256(), Counter[str]()
    try:
        for line in _lines(scope, person, user_id, now, counts):
            raw = _encoded(line)
            digest.update(raw)
            file.write(raw)
        last = {"type": "end", "counts": dict(counts), "sha256": digest.hexdigest()}
        file.write(_encoded(last))
        if person is not None:
            _audit(scope, person, counts, now, via)
    except BaseException:
        file.close()
        raise
    size = file.tell()
    file.seek(0)
    return Export(file=file, size=size, counts=dict(counts))


def _audit(scope: Scope, person: EndUser, counts: Counter[str], now: datetime, via: str) -> None:
    with scoped_transaction(scope):
        audit.record(
            scope=scope,
            action=EXPORTED_ACTION,
            target_kind="end_user",
            target_id=person.pk,
            now=now,
            detail={"via": via, "lines": sum(counts.values())},
        )


def _lines(
    scope: Scope, person: EndUser | None, user_id: str, now: datetime, counts: Counter[str]
) -> Iterator[dict[str, Any]]:
    yield {
        "type": "export",
        "version": VERSION,
        "tenant_id": scope.tenant_id,
        "id": person.pk if person else None,
        "user_id": person.user_id if person else user_id,
        "made_at": now,
    }
    if person is None:
        return
    with _snapshot(), scoped_transaction(scope.narrowed(user_id=person.pk)):
        for label, how in EXPORTED.items():
            for line in _rows(scope.narrowed(user_id=person.pk), person, label, how):
                counts[how.type] += 1
                yield line


@contextmanager
def _snapshot() -> Iterator[None]:
    """Open a transaction that sees one moment; inside another, that one's rules hold."""
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(_SNAPSHOT)
        yield


def _rows(scope: Scope, person: EndUser, label: str, how: Lines) -> Iterator[dict[str, Any]]:
    model: Any = apps.get_model(label)
    if how.whose == "session":
        threads: Any = apps.get_model("threads.Thread")
        own = threads.objects.in_scope(scope).filter(end_user_id=person.pk).order_by("pk")
        for thread_id in own.values_list("pk", flat=True):
            session = scope.narrowed(thread_id=thread_id)
            with scoped_transaction(session):
                yield from _plain(model, model.objects.in_scope(session), how)
        return
    rows = model.objects.in_scope(scope)
    if how.whose == "own_or_made":
        # Rows of a team that the person's own runs made are the person's words, too.
        with scoped_transaction(_whole(scope)):
            theirs = Q(end_user_id=person.pk)
            for path in how.made:
                theirs |= Q(**{path: person.pk})
            rows = model.objects.in_scope(_whole(scope)).filter(theirs)
            yield from _plain(model, rows, how)
        return
    yield from _plain(model, rows.filter(_mine(scope, person, model, how)), how)


def _whole(scope: Scope) -> Scope:
    return Scope(tenant_ids=scope.tenant_ids, principal_id=scope.principal_id)


def _mine(scope: Scope, person: EndUser, model: Any, how: Lines) -> Q:
    if how.whose == "subject":
        return Q(subject_id=person.pk)
    if how.whose == "about":
        found = Q(target_id=person.pk)
        for label in ABOUT:
            table: Any = apps.get_model(label)
            own = table.objects.in_scope(scope).filter(end_user_id=person.pk)
            found |= Q(target_id__in=own.values("pk"))
        erasures = Erasure.objects.in_scope(scope).filter(subject_id=person.pk)
        return found | Q(target_id__in=erasures.values("pk"))
    return Q(pk=person.pk) if model is EndUser else Q(end_user_id=person.pk)


def _plain(model: Any, rows: ScopedQuerySet[Any], how: Lines) -> Iterator[dict[str, Any]]:
    names = [
        (field.column, field.attname)
        for field in model._meta.local_fields
        if field.name not in how.left_out
    ]
    added = how.added or {}
    columns = [attribute for _, attribute in names]
    wanted = rows.order_by("pk").values_list(*columns, *(F(path) for path in added.values()))
    for values in wanted.iterator(chunk_size=_BATCH):
        shown = dict(zip([*(column for column, _ in names), *added], values, strict=True))
        yield {"type": how.type} | _untyped(shown)


def _untyped(shown: dict[str, Any]) -> dict[str, Any]:
    """Let no column of a table be taken for the type of a line."""
    return {f"{name}_" if name == "type" else name: value for name, value in shown.items()}


def _encoded(line: dict[str, Any]) -> bytes:
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=_as_text)
    return text.encode() + b"\n"


def _as_text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, date | Decimal):
        return str(value)
    raise TypeError(type(value).__name__)


def model_of(label: str) -> type[models.Model]:
    """Return the model behind a label of the map."""
    found: type[models.Model] = apps.get_model(label)
    return found
