"""Decisions about many rows: bounded, resumable row by row, each audited, by whoever still may."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pytest
from django.contrib.auth.models import User

from governance import bulk
from governance.access import ForbiddenError
from governance.bulk import rules
from governance.bulk.rules import RULES
from governance.decisions import SecondApproverError
from governance.models import AuditEntry, BulkDecision
from governance.permissions import Role
from memory.errors import ConflictError, NotFoundError
from memory.ids import new_id
from memory.models import Job, KnowledgeDocument, Tenant
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.factories import NOW, make_end_user, make_staff, make_tenant, scope_of


class CrashError(Exception):
    """The process ends here."""


@dataclass
class Desk:
    """A tenant, its curator, and documents that wait."""

    tenant: Tenant
    staff: User
    ids: list[str]

    @property
    def actor(self) -> str:
        return f"staff:{self.staff.pk}"

    @property
    def scope(self) -> Scope:
        return Scope(tenant_ids=(self.tenant.pk,), principal_id=self.actor)

    @property
    def worker(self) -> Scope:
        return Scope(tenant_ids=(self.tenant.pk,), principal_id="worker")

    def start(self, action: str = "admit", ids: list[str] | None = None, reason: str = "") -> str:
        return bulk.start(
            scope=self.scope, kind="document", action=action, ids=ids or self.ids,
            reason=reason, now=NOW,
        ).pk  # fmt: skip

    def work(self, bulk_id: str, within_seconds: float = 60) -> BulkDecision:
        return bulk.work(scope=self.worker, bulk_id=bulk_id, now=NOW, within_seconds=within_seconds)

    def rows(self, model: Any, **found: Any) -> list[Any]:
        with scoped_transaction(self.scope):
            return list(model.objects.in_scope(self.scope).filter(**found).order_by("id"))

    def states(self) -> list[str]:
        by_id = {row.pk: row.status for row in self.rows(KnowledgeDocument)}
        return [by_id[pk] for pk in self.ids]

    def audited(self) -> list[tuple[str, str, str]]:
        rows = self.rows(AuditEntry, target_kind="document")
        return [(row.action, row.target_id, row.actor) for row in rows]


def make_desk(rows: int = 5) -> Desk:
    tenant = make_tenant()
    person = make_end_user(tenant)
    with scoped_transaction(scope_of(tenant)):
        made = KnowledgeDocument.objects.bulk_create(
            KnowledgeDocument(
                tenant=tenant, end_user=person, title=f"document {number} 文档", kind="note",
                origin="api", content="text", sha256=f"{number:064d}", bytes=4,
            )
            for number in range(rows)
        )  # fmt: skip
    return Desk(
        tenant=tenant,
        staff=make_staff(tenant, role=Role.CURATOR),
        ids=[document.pk for document in made],
    )


@pytest.fixture
def desk(db: None) -> Desk:
    return make_desk()


@contextmanager
def acting(act: rules.Act, kind: str = "document", action: str = "admit") -> Iterator[None]:
    """Put a function of the test behind a decision for a while."""
    kept = RULES[kind, action]
    RULES[kind, action] = replace(kept, act=act)
    try:
        yield
    finally:
        RULES[kind, action] = kept


@pytest.mark.req("E05")
def test_work_decides_each_row_once_with_its_own_audit_row(desk: Desk) -> None:
    done = desk.work(desk.start())
    assert (done.status, done.decided, done.refused, done.done_upto) == ("done", 5, 0, 5)
    assert set(desk.states()) == {"admitted"}
    assert desk.audited() == [("document_admitted", pk, desk.actor) for pk in desk.ids]


def test_start_writes_one_decision_one_audit_row_and_one_job(desk: Desk) -> None:
    bulk_id = desk.start("refuse", reason="  过时了  ")
    (row,) = desk.rows(BulkDecision)
    assert (row.reason, row.actor, row.ids, row.status) == (
        "过时了", desk.actor, desk.ids, "ready",
    )  # fmt: skip
    (entry,) = desk.rows(AuditEntry, target_kind="bulk_decision")
    assert (entry.action, entry.target_id) == ("bulk_started", bulk_id)
    assert entry.detail == {"kind": "document", "action": "refuse", "rows": 5, "done": 0}
    (job,) = desk.rows(Job, kind="bulk_decide")
    assert job.dedupe_key == f"bulk_decide:{bulk_id}"
    assert desk.states() == ["pending"] * 5


def test_start_keeps_secrets_out_of_the_reason(desk: Desk) -> None:
    secret = "sk-" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4"
    desk.start("refuse", reason=f"see {secret}")
    assert secret not in desk.rows(BulkDecision)[0].reason


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"kind": "tenant"}, bulk.UnknownDecisionError),
        ({"action": "delete"}, bulk.UnknownDecisionError),
        ({"ids": []}, bulk.NoRowsError),
        ({"ids": [new_id("doc") for _ in range(10_001)]}, bulk.TooManyRowsError),
        ({"ids": ["doc_1\0"]}, bulk.InvalidRowsError),
        ({"ids": ["' OR 1=1"]}, bulk.InvalidRowsError),
        ({"action": "refuse", "reason": " \n"}, bulk.ReasonNeededError),
    ],
)
def test_start_without_what_a_decision_needs_is_refused(
    desk: Desk, changes: dict[str, Any], error: type[Exception]
) -> None:
    asked: dict[str, Any] = {
        "kind": "document", "action": "admit", "ids": desk.ids, "reason": "", "now": NOW,
    }  # fmt: skip
    with pytest.raises(error):
        bulk.start(scope=desk.scope, **(asked | changes))
    assert desk.rows(BulkDecision) == desk.rows(Job) == []


@pytest.mark.req("B18")
def test_start_by_whoever_may_not_decide_is_refused(desk: Desk) -> None:
    readers = f"staff:{make_staff(desk.tenant, role=Role.READER).pk}"
    strangers = f"staff:{make_staff(make_tenant()).pk}"
    root = User.objects.create_superuser("root-of-bulk", password="right horse")
    for who in (
        readers,
        strangers,
        f"staff:{root.pk}",
        "staff:999999",
        "staff:x",
        "key_1",
        "worker",
    ):
        with pytest.raises(ForbiddenError):
            bulk.start(
                scope=replace(desk.scope, principal_id=who), kind="document", action="admit",
                ids=desk.ids, reason="", now=NOW,
            )  # fmt: skip
    assert desk.rows(BulkDecision) == []


def test_rows_that_stand_elsewhere_or_nowhere_are_counted_as_refused(desk: Desk) -> None:
    """Attack 25 too: a foreign id in the list is a row that is not there."""
    foreign = make_desk(rows=1)
    desk.work(desk.start("refuse", ids=desk.ids[:1], reason="no"))
    mixed = [desk.ids[0], foreign.ids[0], new_id("doc"), new_id("doc"), desk.ids[1], desk.ids[1]]
    done = desk.work(desk.start("admit", ids=mixed))
    assert (done.status, done.decided, done.refused, done.done_upto) == ("done", 1, 4, 5)
    assert desk.states() == ["refused", "admitted", "pending", "pending", "pending"]
    assert foreign.states() == ["pending"]


def test_four_eyes_error_of_the_domain_counts_as_refused(desk: Desk) -> None:
    def second_needed(scope: Scope, row_id: str, reason: str, now: datetime) -> object:
        raise SecondApproverError

    bulk_id = desk.start()
    with acting(second_needed):
        done = desk.work(bulk_id)
    assert (done.status, done.decided, done.refused) == ("done", 0, 5)


@pytest.mark.req("E05")
def test_crash_half_way_goes_on_exactly_where_it_was(desk: Desk) -> None:
    """Decided rows are decided no second time, the row of the crash is decided after it."""
    seen: list[str] = []

    def crash_at_third(scope: Scope, row_id: str, reason: str, now: datetime) -> object:
        seen.append(row_id)
        found = kept(scope, row_id, reason, now)
        if len(seen) == 3:
            raise CrashError
        return found

    kept = RULES["document", "admit"].act
    bulk_id = desk.start()
    with acting(crash_at_third):
        with pytest.raises(CrashError):
            desk.work(bulk_id)
        (row,) = desk.rows(BulkDecision)
        assert (row.status, row.done_upto, row.decided) == ("ready", 2, 2)
        assert desk.states() == ["admitted"] * 2 + ["pending"] * 3
        done = desk.work(bulk_id)
    assert seen == [*desk.ids[:3], *desk.ids[2:]]
    assert (done.status, done.decided, done.refused) == ("done", 5, 0)
    assert [target for _, target, _ in desk.audited()] == desk.ids


def test_work_run_twice_changes_nothing_the_second_time(desk: Desk) -> None:
    bulk_id = desk.start()
    first = desk.work(bulk_id)
    again = desk.work(bulk_id)
    assert (again.decided, again.refused, again.updated_at) == (
        first.decided, first.refused, first.updated_at,
    )  # fmt: skip
    assert len(desk.audited()) == 5


def test_time_that_is_up_leaves_the_rest_for_another_round(desk: Desk) -> None:
    bulk_id = desk.start()
    rounds = 0
    while desk.work(bulk_id, within_seconds=0).status == "ready":
        rounds += 1
        assert desk.rows(BulkDecision)[0].done_upto == rounds
    assert rounds == 4
    assert set(desk.states()) == {"admitted"}


def test_row_another_worker_counted_meanwhile_is_not_counted_twice(desk: Desk) -> None:
    """The second worker of a lost lease: what it decided is rolled back with its count."""
    bulk_id = desk.start()
    kept = RULES["document", "admit"].act

    def overtaken(scope: Scope, row_id: str, reason: str, now: datetime) -> object:
        RULES["document", "admit"] = replace(RULES["document", "admit"], act=kept)
        desk.work(bulk_id)
        return kept(scope, row_id, reason, now)

    with acting(overtaken):
        done = desk.work(bulk_id)
    # The overtaking worker ran inside the overtaken one's transaction here, and went with it; what
    # counts is that no row was counted or audited twice.
    assert (done.status, done.decided, done.done_upto) == ("done", 5, 5)
    assert [target for _, target, _ in desk.audited()] == desk.ids


def test_actor_without_grant_decides_no_further_piece(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack 29: taken off the role while the worker works."""
    monkeypatch.setattr("governance.bulk.deciding.PIECE_ROWS", 2)
    kept = RULES["document", "admit"].act

    def fired(scope: Scope, row_id: str, reason: str, now: datetime) -> object:
        desk.staff.groups.clear()
        return kept(scope, row_id, reason, now)

    bulk_id = desk.start()
    with acting(fired):
        done = desk.work(bulk_id)
    assert (done.status, done.error_code, done.done_upto) == ("stopped", "forbidden", 2)
    assert desk.states() == ["admitted"] * 2 + ["pending"] * 3
    stops = [row.action for row in desk.rows(AuditEntry, target_kind="bulk_decision")]
    assert stops == ["bulk_started", "bulk_stopped"]
    assert desk.work(bulk_id).status == "stopped"


def test_deactivated_actor_is_stopped_before_the_first_row(desk: Desk) -> None:
    bulk_id = desk.start()
    User.objects.filter(pk=desk.staff.pk).update(is_active=False)
    assert desk.work(bulk_id).error_code == "forbidden"
    assert set(desk.states()) == {"pending"}


def test_cancel_ends_it_between_two_rows_and_only_once(desk: Desk) -> None:
    bulk_id = desk.start()
    desk.work(bulk_id, within_seconds=0)
    bulk.cancel(scope=desk.scope, bulk_id=bulk_id, now=NOW)
    done = desk.work(bulk_id)
    assert (done.status, done.error_code, done.done_upto) == ("stopped", "cancelled", 1)
    assert desk.states() == ["admitted"] + ["pending"] * 4
    with pytest.raises(ConflictError):
        bulk.cancel(scope=desk.scope, bulk_id=bulk_id, now=NOW)


@pytest.mark.req("B18")
def test_foreign_decisions_are_neither_worked_on_nor_cancelled(desk: Desk) -> None:
    bulk_id = desk.start()
    stranger = make_desk(rows=1)
    with pytest.raises(NotFoundError):
        bulk.cancel(scope=stranger.scope, bulk_id=bulk_id, now=NOW)
    with pytest.raises(NotFoundError):
        stranger.work(bulk_id)
    assert set(desk.states()) == {"pending"}
