"""Weights: up once a person and day, down once in ninety days, and nothing lost between."""

from __future__ import annotations

import io
import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command

from governance.entities.editing import EntityChange, change_entity
from governance.entities.weights import Asked, count_hits, decay
from governance.models import AuditEntry
from governance.policy import change_policy
from memory.models import Entity, EntityEvent
from memory.rls import scoped_transaction
from tests.factories import NOW, make_run, make_tenant
from tests.vocabulary import BY, at_once, correct, entity_of, new_thread, read, wide
from threads.models import Thread

DAY = timedelta(days=1)


def hit(thread: Thread, text: str, *, at: datetime = NOW, now: datetime | None = None) -> int:
    run = make_run(thread, input=text, created_at=at)
    asked = Asked(end_user_id=thread.end_user_id, run_id=run.pk, text=text, at=at)
    with scoped_transaction(wide(thread)):
        return count_hits(scope=wide(thread), asked=asked, now=now or at)


def kinds(entity: Entity) -> list[str]:
    with scoped_transaction(wide(entity)):
        rows = EntityEvent.objects.in_scope(wide(entity)).filter(entity_id=entity.pk)
        return list(rows.order_by("at", "id").values_list("kind", flat=True))


@pytest.mark.req("D09")
@pytest.mark.parametrize(
    ("term", "text"),
    [
        ("DGIA", "Who leads the dgia?"),
        ("DGIA", "ＤＧＩＡ 的负责人是谁"),
        ("数据中心", "我们的数据中心在哪里"),
        ("Maria Schmidt", "ask MARIA schmidt"),
    ],
)
def test_hit_raises_the_weight_once_a_person_and_day(db: None, term: str, text: str) -> None:
    tenant = make_tenant()
    thread = new_thread(tenant)
    entity = entity_of(thread, term)
    assert [hit(thread, text), hit(thread, text), hit(thread, "nothing of it")] == [1, 0, 0]
    row = read(entity)
    assert row.last_hit_at == NOW
    assert row.weight == pytest.approx(1.1)
    assert hit(new_thread(), text) == 0, "another tenant's"
    assert hit(new_thread(tenant), text) == 1
    assert hit(thread, text, at=NOW + DAY) == 1
    assert read(entity).weight == pytest.approx(1.1**3)
    assert kinds(entity) == ["approved", "hit", "hit", "hit"]


@pytest.mark.req("D09")
def test_alias_counts_and_retired_or_merged_ones_do_not(db: None) -> None:
    thread = new_thread()
    entity = entity_of(thread, "Directorate General")
    change = EntityChange(add_aliases=["DGIA"])
    change_entity(scope=wide(thread), entity_id=entity.pk, change=change, by=BY, now=NOW)
    assert hit(thread, "DGIA, please") == 1
    change = EntityChange(status="retired")
    change_entity(scope=wide(thread), entity_id=entity.pk, change=change, by=BY, now=NOW)
    assert hit(thread, "DGIA, please", at=NOW + DAY) == 0
    assert decay(scope=wide(thread), now=NOW + 400 * DAY).decayed == 0


@pytest.mark.req("D09")
def test_weight_ends_at_the_cap_and_at_the_floor_of_policy(db: None) -> None:
    thread = new_thread()
    entity = entity_of(thread, "DGIA", weight=4.9)
    assert hit(thread, "DGIA") == 1
    assert read(entity).weight == 5.0
    change_policy(scope=wide(thread), changes={"entity_cap": 2.0, "entity_floor": 0.5}, now=NOW)
    change_policy(
        scope=wide(thread), changes={"entity_factor_down": 0.1, "entity_idle_days": 10}, now=NOW
    )
    assert decay(scope=wide(thread), now=NOW + 10 * DAY).decayed == 1
    assert read(entity).weight == 0.5
    assert decay(scope=wide(thread), now=NOW + 40 * DAY).decayed == 0, "at the floor"


@pytest.mark.req("D09")
def test_default_numbers_are_those_of_the_requirement(db: None) -> None:
    thread = new_thread()
    entity = entity_of(thread, "DGIA", weight=0.105)
    report = decay(scope=wide(thread), now=NOW + 90 * DAY)
    assert (report.decayed, report.factor, report.floor, report.idle_days) == (1, 0.9, 0.1, 90)
    assert read(entity).weight == 0.1


@pytest.mark.req("D09")
@pytest.mark.req("D12")
def test_case_134_decay_runs_once_in_ninety_days_however_often_and_catches_up_once(
    db: None,
) -> None:
    thread = new_thread()
    scope = wide(thread)
    entity = entity_of(thread, "数据中心")
    fallen = [decay(scope=scope, now=NOW + days * DAY).decayed for days in (1, 89, 90, 90, 91, 179)]
    assert fallen == [0, 0, 1, 0, 0, 0]
    assert read(entity).weight == pytest.approx(0.9)
    assert decay(scope=scope, now=NOW + 700 * DAY).decayed == 1, "seven periods late"
    assert decay(scope=scope, now=NOW + 701 * DAY).decayed == 0
    assert read(entity).weight == pytest.approx(0.81)
    assert kinds(entity) == ["approved", "decayed", "decayed"]
    with scoped_transaction(scope):
        assert AuditEntry.objects.in_scope(scope).filter(action="weights_decayed").count() == 2


@pytest.mark.req("D09")
def test_both_times_must_be_old(db: None) -> None:
    thread = new_thread()
    old = NOW - 200 * DAY
    entity_of(thread, "Alpha", approved_at=old, last_hit_at=NOW - DAY)
    entity_of(thread, "Beta", approved_at=old, last_hit_at=old, last_decayed_at=NOW - DAY)
    entity_of(thread, "Gamma", approved_at=NOW - DAY)
    due = entity_of(thread, "Delta", approved_at=old, last_hit_at=old, last_decayed_at=old)
    assert decay(scope=wide(thread), now=NOW).decayed == 1
    assert read(due).weight == pytest.approx(0.9)


@pytest.mark.req("D12")
def test_dry_run_counts_the_same_and_changes_nothing(db: None) -> None:
    thread = new_thread()
    entity = entity_of(thread, "DGIA")
    scope, later = wide(thread), NOW + 100 * DAY
    shown = decay(scope=scope, now=later, is_dry_run=True)
    assert (shown.decayed, read(entity).weight, kinds(entity)) == (1, 1.0, ["approved"])
    assert decay(scope=scope, now=later).decayed == shown.decayed
    assert decay(scope=scope, now=later, is_dry_run=True).decayed == 0


@pytest.mark.req("D09")
@pytest.mark.req("B15")
def test_decayed_entity_comes_back_up_on_a_hit(db: None) -> None:
    thread = new_thread()
    entity = entity_of(thread, "DGIA")
    later = NOW + 91 * DAY
    decay(scope=wide(thread), now=later)
    assert hit(thread, "DGIA?", at=later) == 1
    assert read(entity).weight == pytest.approx(0.9 * 1.1)


@pytest.mark.req("D09")
def test_case_149_clock_that_jumps_moves_a_weight_once_at_most(db: None) -> None:
    thread = new_thread()
    scope = wide(thread)
    entity = entity_of(thread, "DGIA")
    hit(thread, "DGIA", at=NOW + 30 * DAY, now=NOW)
    assert read(entity).last_hit_at == NOW, "never ahead of the clock that counts"
    hit(thread, "DGIA", at=NOW - DAY)
    assert read(entity).last_hit_at == NOW, "never back"
    before = read(entity).weight
    jumps = (91, 91 - 1 / 24, 0, 92, 91)
    assert sum(decay(scope=scope, now=NOW + days * DAY).decayed for days in jumps) == 1
    assert read(entity).weight == pytest.approx(before * 0.9)


@pytest.mark.req("D09")
def test_case_133_hits_and_decays_at_once_lose_nothing(committed_db: Any) -> None:
    tenant = make_tenant()
    threads = [new_thread(tenant) for _ in range(8)]
    entity = entity_of(threads[0], "DGIA", approved_at=NOW - 200 * DAY)
    scope = wide(threads[0])

    def fall() -> object:
        return decay(scope=scope, now=NOW).decayed

    acts = [lambda thread=thread: hit(thread, "DGIA") for thread in threads]
    done = at_once([*acts, fall, fall, fall])
    assert not [one for one in done if isinstance(one, Exception)]
    fallen = sum(int(str(count)) for count in done[8:])
    assert fallen in (0, 1), "idle only before the first hit"
    assert read(entity).weight == pytest.approx(1.1**8 * 0.9**fallen)


@pytest.mark.req("D09")
def test_case_133_decay_while_somebody_edits_keeps_both(committed_db: Any) -> None:
    thread = new_thread()
    entity = entity_of(thread, "DGIA", approved_at=NOW - 200 * DAY)
    scope = wide(thread)

    def rename() -> object:
        change = EntityChange(add_aliases=["总局"])
        return change_entity(scope=scope, entity_id=entity.pk, change=change, by=BY, now=NOW)

    done = at_once([rename, lambda: decay(scope=scope, now=NOW)])
    assert not [one for one in done if isinstance(one, Exception)]
    row = read(entity)
    assert row.aliases == ["总局"]
    assert row.weight == pytest.approx(0.9)


@pytest.mark.req("D12")
def test_commands_propose_and_decay_by_hand(committed_db: Any) -> None:
    tenant = make_tenant()
    thread = new_thread(tenant)
    entity = entity_of(thread, "DGIA", approved_at=NOW - 20_000 * DAY)
    correct(thread, "数据中心")

    def run(*words: str) -> Any:
        out = io.StringIO()
        call_command(*words, "--tenant", tenant.slug, "--json", stdout=out)
        return json.loads(out.getvalue())

    assert run("propose_entities") == {
        "corrections": 1,
        "candidates": 1,
        "evidence": 1,
        "distrusted": 0,
    }
    assert run("propose_entities")["corrections"] == 0
    assert run("decay_weights", "--dry-run")["decayed"] == 1
    assert run("decay_weights")["decayed"] == 1
    assert run("decay_weights")["decayed"] == 0
    assert read(entity).weight == pytest.approx(0.9)
