"""Mode tagged: what is personal goes from every text of a person, and from nobody else's."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connections
from django.utils import timezone

from governance.erasure.requests import preview, request_erasure
from governance.erasure.tagging import tagged_eraser
from governance.erasure.work import do_erasure
from governance.models.erasure import Erasure, ErasureStatus
from memory.models import EndUser, Job
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.factories import (
    NOW,
    make_agent,
    make_end_user,
    make_run,
    make_tenant,
    make_thread,
    scope_of,
)
from tests.governance.erasure.scenes import clear_books, fingerprints, read, values
from tests.isolation.worlds import World, make_world
from tests.journeys.crash_processes import wait_until
from tests.recalling import Talk
from tests.talking import tell
from tests.threads.forgetting.planting import PHONE, plant, rows_with
from threads.forgetting.tagged import erase_tagged
from threads.models import Message, Run, ThreadSummary

pytestmark = pytest.mark.usefixtures("committed_db")


@pytest.fixture
def worlds(committed_db: None, superuser_url: str) -> tuple[World, World]:
    """Two tenants with two people each, and the same number in every text of all of them."""
    found = make_world(), make_world()
    for world in found:
        clear_books(world)
        for person in world.people:
            plant(superuser_url, person)
    return found


def ask(person: EndUser, **values: Any) -> Erasure:
    scope = Scope(tenant_ids=(person.tenant_id,), principal_id="test")
    return request_erasure(scope=scope, person=person, mode="tagged", now=timezone.now(), **values)


def erase(person: EndUser, **values: Any) -> Erasure:
    asked = ask(person, **values)
    assert do_erasure(erasure_id=asked.pk, tagged=erase_tagged, now=timezone.now())
    return read(asked)


def mark_of(world: World) -> str:
    return f"CNRY-{world.tenant.slug}-1-|{world.people[0].row.pk}"


@pytest.mark.req("B19")
def test_tagged_erasure_leaves_no_value_of_the_person_and_all_of_others(
    worlds: tuple[World, World], superuser_url: str
) -> None:
    """Cases 103, 163: every store of the person; two tenants and a stranger keep theirs."""
    ours, theirs = worlds
    person = ours.people[0]
    planted = rows_with(superuser_url, person)
    assert {"threads_run", "memory_recallentry", "memory_corefact", "memory_knowledgechunk"} <= set(
        planted
    )
    before = fingerprints(superuser_url, without=mark_of(ours))
    done = erase(person.row)
    assert done.status == ErasureStatus.DONE, done.error_code
    assert rows_with(superuser_url, person) == {}
    after = fingerprints(superuser_url, without=mark_of(ours))
    assert {name for name in before if before[name] != after[name]} <= {"memory_job"}
    for other in (ours.people[1], *theirs.people):
        assert "threads_message" in rows_with(superuser_url, other)
    assert done.counts["messages"] == 2
    assert done.counts["runs"] == 3


def test_a_dry_run_counts_what_the_act_does_and_changes_nothing(
    worlds: tuple[World, World], superuser_url: str
) -> None:
    """Case 161: the same counts, and not a row changed."""
    person = worlds[0].people[0]
    scope = scope_of(worlds[0].tenant)
    before = fingerprints(superuser_url, without="nothing at all is left out")
    told = preview(scope=scope, person=person.row, mode="tagged")
    assert fingerprints(superuser_url, without="nothing at all is left out") == before
    done = erase(person.row)
    assert dict(told.counts) == values(done)
    assert values(erase(person.row)) == {}


def talk() -> Talk:
    tenant = make_tenant()
    thread = make_thread(make_agent(tenant), make_end_user(tenant))
    return Talk(tenant=tenant, thread=thread)


def texts_of(a: Talk) -> list[str]:
    return [one.content for one in a.messages()]


def test_offsets_tags_and_counts_are_right_beside_emoji() -> None:
    """Case 104: what stands around the placeholder is untouched, and the tags are its own."""
    a = talk()
    said = f"😀𝒳 我的手机号是{PHONE}，邮箱 ann@example.com 😀"
    tell(a.thread, [(said, f"ok {PHONE} 👍")])
    erase(a.thread.end_user, kinds=["phone"])
    question, answer = a.messages()
    assert question.content == "😀𝒳 我的手机号是[pii:phone]，邮箱 ann@example.com 😀"
    assert answer.content == "ok [pii:phone] 👍"
    (tag,) = question.pii
    assert tag["kind"] == "email"
    assert question.content[tag["start"] : tag["end"]] == "ann@example.com"
    with scoped_transaction(a.wide):
        run = Run.objects.in_scope(a.wide).get()
    assert (run.input, run.output) == (question.content, answer.content)


def test_before_at_leaves_what_was_said_later() -> None:
    a = talk()
    tell(a.thread, [(f"my phone is {PHONE}", "old")], created_at=NOW - timedelta(days=9))
    tell(a.thread, [(f"my phone is {PHONE}", "new")], created_at=NOW)
    erase(a.thread.end_user, before_at=NOW - timedelta(days=1))
    assert texts_of(a) == ["my phone is [pii:phone]", "old", f"my phone is {PHONE}", "new"]


def test_what_was_derived_goes_and_is_asked_for_anew() -> None:
    a = talk()
    tell(a.thread, [(f"my phone is {PHONE}", "noted"), ("hello", "hi")])
    scope = scope_of(a.tenant, a.thread.end_user, a.thread)
    with scoped_transaction(scope):
        ThreadSummary.objects.create(
            tenant=a.tenant,
            thread=a.thread,
            end_user=a.thread.end_user,
            rolling_summary="Told a telephone number.",
            summary_upto_seq=2,
        )
        Job.objects.in_scope(scope).delete()
    done = erase(a.thread.end_user)
    with scoped_transaction(scope):
        assert not ThreadSummary.objects.in_scope(scope).exists()
    assert done.counts["summaries"] == 1
    assert a.jobs_of("index_recall")


def test_an_erasure_that_stopped_leaves_all_and_goes_on_whole() -> None:
    """Case 160: stopped anywhere, nothing is half done; the next one does it all."""
    a = talk()
    tell(a.thread, [(f"my phone is {PHONE}", f"{PHONE}")])

    def stopping() -> None:
        calls.append(1)
        if len(calls) == 4:
            raise RuntimeError

    calls: list[int] = []
    asked = ask(a.thread.end_user)
    before = texts_of(a)
    with pytest.raises(RuntimeError):
        erase_tagged(scope=a.scope, erasure=asked, hold=stopping, is_dry_run=False)
    assert texts_of(a) == before
    assert do_erasure(erasure_id=asked.pk, tagged=erase_tagged, now=timezone.now())
    assert texts_of(a) == ["my phone is [pii:phone]", "[pii:phone]"]


def test_the_eraser_is_known_at_start() -> None:
    assert tagged_eraser() is erase_tagged


def test_a_person_without_anything_personal_stays_as_they_were() -> None:
    a = talk()
    tell(a.thread, [("hello 你好", "hi")])
    assert values(erase(a.thread.end_user)) == {}
    with scoped_transaction(a.wide):
        assert Message.objects.in_scope(a.wide).count() == 2


def test_run_that_ends_meanwhile_is_waited_for_and_does_not_wait_for_us(
    worlds: tuple[World, World], superuser_url: str
) -> None:
    """Whoever ends a run locks it and then asks for the person; the other order would deadlock."""
    person = worlds[0].people[0]
    scope = scope_of(worlds[0].tenant, person.row)
    running = make_run(
        person.thread,
        origin="run",
        status="running",
        finished_at=None,
        lease_until=timezone.now() + timedelta(minutes=5),
    )
    asked = ask(person.row)
    errors: list[BaseException] = []

    def erasing() -> None:
        try:
            do_erasure(erasure_id=asked.pk, tagged=erase_tagged, now=timezone.now())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test fails
            errors.append(error)
        finally:
            connections.close_all()

    def is_waiting() -> bool:
        with psycopg.connect(superuser_url) as watcher:
            query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            row = watcher.execute(query).fetchone()
        return bool(row and row[0])

    worker = threading.Thread(target=erasing)
    with scoped_transaction(scope):
        Run.objects.in_scope(scope).select_for_update(of=("self",)).get(pk=running.pk)
        worker.start()
        wait_until(is_waiting, what="the erasure waits for the run")
        Message.objects.create(
            tenant=worlds[0].tenant,
            thread=person.thread,
            run=running,
            end_user=person.row,
            position=0,
            role="assistant",
            content="done",
        )
    worker.join(60)
    assert errors == []
    assert read(asked).status == ErasureStatus.DONE
