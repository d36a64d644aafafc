"""What is personal in messages is tagged where they are written, and stays."""

from __future__ import annotations

from typing import Any

import pytest

from governance.models import AuditEntry
from memory.rls import scoped_transaction
from tests.factories import make_agent, make_tenant, scope_of
from tests.fakes.openai_replies import text
from tests.fakes.openai_server import FakeOpenAI
from tests.recalling import make_talk
from tests.talking import events_of, new_thread, prepare, session_of, stored_run, tell
from threads.models import Message

MOBILE = "138" + "0013" + "8000"


@pytest.mark.req("B19")
def test_question_and_answer_of_a_run_are_tagged_and_keep_their_words(
    world: Any, server: FakeOpenAI
) -> None:
    """Cases 103 and 104."""
    tenant, key, agent = world
    server.script(text("写信到name@example.com吧"))
    prepared = prepare(key, agent, f"😀 我的电话是{MOBILE}")
    events_of(prepared)
    run = stored_run(prepared)
    with scoped_transaction(scope_of(tenant)):
        rows = Message.objects.in_scope(scope_of(tenant)).filter(run_id=run.pk)
        said, answered = rows.order_by("position")
    assert said.content == f"😀 我的电话是{MOBILE}"
    assert said.pii == [{"kind": "phone", "start": 7, "end": 18}]
    assert answered.pii == [{"kind": "email", "start": 3, "end": 19}]


@pytest.mark.req("B19")
def test_turn_made_elsewhere_is_tagged_as_well(db: None) -> None:
    thread = new_thread(make_agent(make_tenant()))
    tell(thread, [(f"call {MOBILE}", "好的")])
    with scoped_transaction(session_of(thread)):
        rows = Message.objects.in_scope(session_of(thread)).order_by("position")
        tags = [message.pii for message in rows]
    assert tags == [[{"kind": "phone", "start": 5, "end": 16}], []]


@pytest.mark.req("B16")
def test_every_recall_entry_has_its_audit_row_without_text(db: None) -> None:
    talk = make_talk()
    runs = tell(
        talk.thread, [(f"call {MOBILE}", "好的"), ("汇到GB82 WEST 1234 5698 7654 32", "ok")]
    )
    talk.index()
    with scoped_transaction(talk.wide):
        rows = AuditEntry.objects.in_scope(talk.wide).filter(action="memory_written")
        written = {row.target_id: row.detail for row in rows}
    entries = talk.recalled()
    assert set(written) == {entry.pk for entry in entries}
    details = [written[entry.pk] for entry in entries]
    assert [detail["source_run_id"] for detail in details] == [run.pk for run in runs]
    assert [detail["characters"] for detail in details] == [
        len(entry.said) + len(entry.answered) for entry in entries
    ]
    assert (details[0]["pii"], details[1]["removed"]) == (["phone"], ["iban"])
    assert MOBILE not in str(written)
