"""Indexing anew: messages without words, threads without entries, records of other words."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import call_command

from memory import store
from memory.models import Job
from memory.retrieval.words import message_terms
from memory.rls import scoped_transaction
from memory.store import Owner
from tests.factories import NOW, make_agent, make_end_user
from tests.isolation.recall_rows import document
from tests.recalling import Talk, make_talk
from tests.talking import new_thread, tell
from threads.models import Message
from threads.recall.reindexing import ReindexReport, reindex


def as_of_before(talk: Talk) -> None:
    """Forget what a version without an index would not have."""
    with scoped_transaction(talk.wide):
        Message.objects.in_scope(talk.wide).update(terms=None)
        Job.objects.in_scope(talk.wide).delete()


@pytest.mark.django_db
def test_messages_get_their_words_and_threads_their_jobs_once() -> None:
    talk = make_talk()
    tell(talk.thread, [("How is my puppy?", "小狗很好"), ("", "...")])
    as_of_before(talk)
    assert reindex(scope=talk.wide, now=NOW) == ReindexReport(messages=4, threads=1, entries=0)
    assert reindex(scope=talk.wide, now=NOW) == ReindexReport(messages=0, threads=0, entries=0)
    for message in talk.messages():
        assert message.terms == message_terms(message.content)
    talk.index()
    assert len(talk.entries()) == 2


@pytest.mark.django_db
def test_another_tenant_and_who_keeps_nothing_are_left_alone() -> None:
    talk, other = make_talk(), make_talk()
    keeping_nothing = make_agent(talk.tenant, policy={"writeback": False})
    quiet = new_thread(keeping_nothing, make_end_user(talk.tenant))
    for thread in (talk.thread, other.thread, quiet):
        tell(thread, [("question", "answer")])
    for each in (talk, other):
        as_of_before(each)
    assert reindex(scope=talk.wide, now=NOW).threads == 1
    assert len(talk.jobs_of("index_recall")) == 1
    assert other.jobs_of("index_recall") == []
    assert {message.terms is None for message in other.messages()} == {True}


@pytest.mark.django_db
def test_rebuild_writes_every_record_anew_and_makes_copies_worthless() -> None:
    talk = make_talk(role="tutor")
    tell(talk.thread, [("Caroline: I adopted a puppy", "恭喜"), ("second", "")])
    talk.index()
    before = {entry.pk: bytes(entry.packed) for entry in talk.entries()}
    shelf = talk.shelf()
    with scoped_transaction(talk.scope):
        broken = dict.fromkeys(before, b"old")
        store.repack(scope=talk.scope, shelf_id=shelf.pk, packed=broken)
    report = reindex(scope=talk.wide, now=NOW, is_rebuild=True)
    assert report.entries == 2
    assert {entry.pk: bytes(entry.packed) for entry in talk.entries()} == before
    assert talk.shelf().generation == shelf.generation + 2


@pytest.mark.django_db
def test_rebuild_writes_the_records_of_documents_too() -> None:
    talk = make_talk()
    with scoped_transaction(talk.wide):
        (chunk,) = document({"tenant": talk.tenant}, "Manual ")
        entry = store.NewEntry(
            kind="knowledge", packed=b"old", tier="material", as_of=NOW, chunk_id=chunk.pk
        )
        store.add_entries(scope=talk.wide, owner=Owner(), entries=[entry], now=NOW)
    assert reindex(scope=talk.wide, now=NOW, is_rebuild=True).entries == 1
    assert bytes(talk.entries()[0].packed) != b"old"


def test_command_tells_what_it_did(committed_db: None) -> None:
    talk = make_talk()
    tell(talk.thread, [("question", "answer")])
    talk.index()
    out = StringIO()
    call_command("reindex", "--tenant", talk.tenant.slug, "--rebuild", "--json", stdout=out)
    assert json.loads(out.getvalue()) == {"messages": 0, "threads": 1, "entries": 1}
