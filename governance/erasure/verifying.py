"""The end of an erasure: searching everything for the person, and saying what was found."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

from django.db import connections

from governance import audit
from governance.erasure.finding import Finder
from governance.erasure.needles import Needles, still_telling
from governance.erasure.receipts import receipt_of, sha256_of
from governance.erasure.scanning import Pass, Searched, Subject, scan
from governance.models.erasure import Erasure, ErasureStatus, Verified
from memory.jobs.book import worker_scope
from memory.providers.errors import SealedSecretError
from memory.rls import maintenance_transaction, scoped_transaction

_log = logging.getLogger("credence.erasure")
_WHY: Final = "the search looks for all tenants' erased persons at once"
_LOCK: Final = 0x6372_6564_7365_6172
_PROGRESS: Final = "progress"
_MOST_FINDINGS: Final = 500
# Another person's own words, or another tenant's rows, are no remains of the erased one.
_NOT_FAILING: Final = frozenset({"others", "elsewhere"})


def verify_open(*, now: datetime, within_seconds: float) -> int:
    """Search everything for all erasures that are done and not verified; return how many ended.

    One pass for all of them; where the time is up before it ends, the next call goes on from there.
    One process at a time: for a second one there is nothing to do. Cost: 3 to 6 MB of text a second.
    """
    return search_round(now=now, within_seconds=within_seconds)[0]


def search_round(
    *, now: datetime, within_seconds: float, between: Callable[[], None] = lambda: None
) -> tuple[int, bool]:
    """As `verify_open`; say also whether the pass has to be gone on with.

    `between` is called about every second: who searches long may be taken for dead.
    """
    until = time.monotonic() + within_seconds
    with maintenance_transaction() as alias:
        if not _is_alone(alias):
            return 0, False
        group = _group(alias)
        if not group:
            return 0, False
        needles, unreadable = _opened(group)
        done = _resumed(group)
        scan(
            alias=alias,
            finder=Finder(needles),
            subjects={one.pk: _subject(one) for one in group},
            until=until,
            done=done,
            between=between,
        )
        if not done.is_done:
            _keep_progress(alias, group, done)
            return 0, True
        again = {one.pk for one in group if _search_again(alias, one, done, needles.get(one.pk))}
    ended = 0
    for erasure in group:
        if erasure.pk in again:
            continue
        mine = needles.get(erasure.pk, Needles())
        ended += _end(erasure, done, mine, is_readable=erasure.pk not in unreadable, now=now)
    return ended, bool(again)


def _search_again(alias: str, erasure: Erasure, done: Pass, needles: Needles | None) -> bool:
    """Say whether what was found tells nothing: others have put the same terms right meanwhile.

    Then the erasure waits for another pass without those needles; there are fewer each time.
    """
    if needles is None or all(one["is_mention"] for one in _findings(done, erasure)):
        return False
    left = still_telling(alias=alias, erasure=erasure, needles=needles)
    if len(left.items) == len(needles.items):
        return False
    rows = Erasure.objects.using(alias).unscoped(reason=_WHY)
    rows.filter(pk=erasure.pk, verified=Verified.PENDING).update(
        receipt={}, sealed_needles=left.sealed()
    )
    return True


def _is_alone(alias: str) -> bool:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", (_LOCK,))
        return bool(cursor.fetchone()[0])


def _group(alias: str) -> list[Erasure]:
    """Return the erasures of the pass that was begun, or if there is none, all open ones."""
    rows = Erasure.objects.using(alias).unscoped(reason=_WHY)
    waiting = rows.filter(
        verified=Verified.PENDING, status=ErasureStatus.DONE, erased_at__isnull=False
    )
    found = list(waiting.order_by("created_at", "id"))
    begun = next((_progress(one)["pass"] for one in found if _progress(one)), None)
    return [one for one in found if begun is None or _progress(one).get("pass") == begun]


def _progress(erasure: Erasure) -> Mapping[str, Any]:
    progress: Mapping[str, Any] = erasure.receipt.get(_PROGRESS, {})
    return progress


def _opened(group: Sequence[Erasure]) -> tuple[dict[str, Needles], set[str]]:
    """Open what was sealed; the second are those that no key opens any more."""
    needles: dict[str, Needles] = {}
    unreadable: set[str] = set()
    for erasure in group:
        try:
            needles[erasure.pk] = Needles.opened(erasure.sealed_needles)
        except SealedSecretError:
            unreadable.add(erasure.pk)
    return needles, unreadable


def _subject(erasure: Erasure) -> Subject:
    return Subject(
        erasure_id=erasure.pk, tenant_id=erasure.tenant_id, subject_id=erasure.subject_id
    )


def _resumed(group: Sequence[Erasure]) -> Pass:
    """Return the pass that was begun for this group, or a new one."""
    progress = _progress(group[0])
    if not progress:
        return Pass()
    found = {
        one.pk: {tuple(place): Counter(counts) for place, counts in _progress(one)["found"]}
        for one in group
    }
    at = (progress["at"][0], progress["at"][1])
    return Pass(searched=Searched(**progress["searched"]), found=found, at=at)


def _keep_progress(alias: str, group: Sequence[Erasure], done: Pass) -> None:
    begun = _progress(group[0]).get("pass") or uuid4().hex
    for erasure in group:
        found = [[list(place), dict(c)] for place, c in done.found.get(erasure.pk, {}).items()]
        progress = {
            "pass": begun,
            "at": list(done.at or ("", 0)),
            "searched": asdict(done.searched),
            "found": found,
        }
        rows = Erasure.objects.using(alias).unscoped(reason=_WHY)
        rows.filter(pk=erasure.pk, verified=Verified.PENDING).update(receipt={_PROGRESS: progress})


def _end(
    erasure: Erasure, done: Pass, needles: Needles, *, is_readable: bool, now: datetime
) -> bool:
    """Write down what was found and the receipt, and let the needles go; audited."""
    findings = _findings(done, erasure)
    if not is_readable:
        findings.insert(0, {"problem": "needles_unreadable", "is_mention": False})
    is_clean = all(one["is_mention"] for one in findings)
    erasure.verified = Verified.TRUE if is_clean else Verified.FALSE
    erasure.findings, erasure.verified_at = findings, now
    search = asdict(done.searched) | {"needles": needles.counts()}
    erasure.receipt = receipt_of(erasure, search=search)
    erasure.receipt_sha256 = sha256_of(erasure.receipt)
    scope = worker_scope(erasure.tenant_id)
    with scoped_transaction(scope):
        rows = Erasure.objects.in_scope(scope).filter(pk=erasure.pk, verified=Verified.PENDING)
        changed = rows.update(
            verified=erasure.verified,
            findings=findings,
            verified_at=now,
            receipt=erasure.receipt,
            receipt_sha256=erasure.receipt_sha256,
            sealed_needles="",
        )
        if changed:
            _audit(erasure, len(findings), now)
    level = logging.INFO if is_clean else logging.ERROR
    _log.log(level, "erasure_verified", extra={"erasure_id": erasure.pk, "status": str(is_clean)})
    return bool(changed)


def _audit(erasure: Erasure, findings: int, now: datetime) -> None:
    audit.record(
        scope=worker_scope(erasure.tenant_id),
        action="erasure_verified",
        target_kind="erasure",
        target_id=erasure.pk,
        now=now,
        detail={
            "verified": str(erasure.verified),
            "findings": findings,
            "receipt_sha256": erasure.receipt_sha256,
        },
    )


def _findings(done: Pass, erasure: Erasure) -> list[dict[str, Any]]:
    """Return what was found of one person, and what could not be read, which fails just as well.

    Rows of other tenants are not told of: a receipt is for this tenant alone.
    """
    rows: list[dict[str, Any]] = []
    for (table, column, whose), counts in sorted(done.found.get(erasure.pk, {}).items()):
        if whose == "elsewhere":
            continue
        kinds = {kind: number for kind, number in sorted(counts.items()) if kind != "rows"}
        rows.append(
            {
                "table": table,
                "column": column,
                "rows": counts["rows"],
                "whose": whose,
                "needles": kinds,
                "is_mention": whose in _NOT_FAILING,
            }
        )
    rows.sort(key=lambda row: row["is_mention"])
    unread = [
        {"problem": "not_searched", "table": place, "is_mention": False}
        for place in done.searched.unread
    ]
    return unread + rows[:_MOST_FINDINGS]
