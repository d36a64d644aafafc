"""Case 106: what was stored before a rule existed is found, put right once, and then left alone."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from governance.models import AuditEntry, CoreCandidate
from memory import store
from memory.cleared import Cleared
from memory.models import CoreFact, DocumentStatus, KnowledgeDocument, MemoryItem, MemoryItemVersion
from memory.rls import scoped_transaction
from memory.store import Owner, items
from tests.factories import NOW
from tests.recalling import Talk, make_talk
from tests.talking import tell
from threads.models import Message
from threads.recall.rescanning import rescan

MOBILE = "138" + "0013" + "8000"
IBAN = "GB82 WEST 1234 5698 7654 32"
SECRET = "password: hunter2Xy9"


def old(text: str) -> Cleared:
    """A text as a gate without today's rules would have let it through."""
    return Cleared(text=text, tier="stated")


def empty(report: dict[str, dict[str, int]]) -> bool:
    return not any(found for name, found in report.items() if name != "looked_at")


def put_item(talk: Talk, content: str) -> MemoryItem:
    new = items.NewItem(
        place=items.ItemPlace(
            owner=Owner(end_user_id=talk.thread.end_user_id),
            role="default",
            category="memo",
            key="phone",
        ),
        key_folded="phone",
        title=old("Phone"),
        content=old(content),
        tier="stated",
        origin="api",
        written_by="key",
    )
    with scoped_transaction(talk.wide):
        return items.put_item(scope=talk.wide, new=new, now=NOW, ask=lambda _shelf_id: None).item


@pytest.mark.req("B19")
@pytest.mark.django_db
def test_messages_get_their_tags_and_keep_their_words() -> None:
    talk = make_talk()
    tell(talk.thread, [(f"😀 打{MOBILE}", "好")])
    with scoped_transaction(talk.wide):
        Message.objects.in_scope(talk.wide).update(pii=[])
    report = rescan(scope=talk.wide, now=NOW)
    assert report.tagged == {"messages": 1}
    assert report.kinds["phone"] == 1
    said, answered = talk.messages()
    assert said.pii == [{"kind": "phone", "start": 3, "end": 14}]
    assert (said.content, answered.pii) == (f"😀 打{MOBILE}", [])
    assert empty(rescan(scope=talk.wide, now=NOW).shown())


@pytest.mark.req("B14", "B20")
@pytest.mark.django_db
def test_recall_goes_and_is_learned_anew_without_what_is_secret() -> None:
    talk = make_talk()
    (run,) = tell(talk.thread, [(f"remember {SECRET}", "no")])
    origin = store.Origin(
        end_user_id=talk.thread.end_user_id,
        thread_id=talk.thread.pk,
        agent_id=talk.thread.agent_id,
    )
    turn = store.NewRecall(
        run_id=run.pk, said=old(f"remember {SECRET}"), answered=None, tier="observed", said_at=NOW
    )
    with scoped_transaction(talk.scope):
        store.add_recall(scope=talk.scope, origin=origin, turns=[turn], now=NOW)
    report = rescan(scope=talk.wide, now=NOW)
    assert report.relearned.total() == 1
    assert report.kinds["password"] == 1
    assert talk.recalled() == []
    talk.index()
    (entry,) = talk.recalled()
    assert entry.said == "remember password: [secret:password]"
    assert rescan(scope=talk.wide, now=NOW).relearned.total() == 0


@pytest.mark.req("B19")
@pytest.mark.django_db
def test_item_is_masked_in_all_its_versions_or_tagged() -> None:
    talk = make_talk()
    put_item(talk, f"wire to {IBAN}")
    item = put_item(talk, f"wire it to {IBAN}, ring {MOBILE}")
    report = rescan(scope=talk.wide, now=NOW)
    assert report.masked.total() == 1
    with scoped_transaction(talk.wide):
        now = MemoryItem.objects.in_scope(talk.wide).get(pk=item.pk)
        versions = MemoryItemVersion.objects.in_scope(talk.wide).values_list("content", flat=True)
        said = list(versions)
    assert now.content == f"wire it to [pii:iban], ring {MOBILE}"
    assert [tag["kind"] for tag in now.pii] == ["phone"]
    assert not any(IBAN in one for one in said)
    assert empty(rescan(scope=talk.wide, now=NOW).shown())


@pytest.mark.req("B14")
@pytest.mark.django_db
def test_document_is_masked_and_indexed_anew() -> None:
    talk = make_talk()
    document = store.NewDocument(
        title=Cleared(text="Accounts", tier="material"),
        content=Cleared(text=f"Ours is {IBAN}.", tier="material"),
        kind="note",
        media_type="text/plain",
        size_bytes=1,
        origin="api",
        status=DocumentStatus.ADMITTED,
        decided_by="staff",
    )
    with scoped_transaction(talk.wide):
        made = store.add_document(scope=talk.wide, document=document, now=NOW)
    assert rescan(scope=talk.wide, now=NOW).masked.total() == 1
    with scoped_transaction(talk.wide):
        made = KnowledgeDocument.objects.in_scope(talk.wide).get(pk=made.pk)
    assert made.content == "Ours is [pii:iban]."
    assert len(talk.jobs_of("index_knowledge")) == 1
    assert empty(rescan(scope=talk.wide, now=NOW).shown())


def put_fact(talk: Talk, fact: str, **values: Any) -> CoreFact:
    whose: dict[str, Any] = {
        "tenant": talk.tenant, "end_user_id": talk.thread.end_user_id, "fact": fact,
        "fact_key": f"key {fact}", "origin": "api",
    }  # fmt: skip
    with scoped_transaction(talk.wide):
        candidate = CoreCandidate.objects.create(
            **whose, proposed_by="key", status="confirmed", decided_at=NOW
        )
        return CoreFact.objects.create(
            **whose,
            candidate=candidate,
            valid_from=NOW,
            decided_by_kind="staff",
            decided_by_id="1",
            **values,
        )


@pytest.mark.req("A21", "B19")
@pytest.mark.django_db
def test_facts_are_tagged_masked_or_left_for_staff_and_past_ones_stay_out_of_the_index() -> None:
    talk = make_talk()
    tagged = put_fact(talk, f"Ring {MOBILE}")
    masked = put_fact(talk, f"Banks at {IBAN}")
    past = put_fact(talk, f"Banked at {IBAN}", valid_to=NOW, end_reason="evicted")
    refused = put_fact(talk, "My son has type 1 diabetes")
    report = rescan(scope=talk.wide, now=NOW)
    assert (report.tagged.total(), report.masked.total(), report.left.total()) == (1, 2, 1)
    assert report.kinds["health"] == 1
    with scoped_transaction(talk.wide):
        said = {one.pk: one for one in CoreFact.objects.in_scope(talk.wide)}
    assert [tag["kind"] for tag in said[tagged.pk].pii] == ["phone"]
    assert said[masked.pk].fact == "Banks at [pii:iban]"
    assert said[past.pk].fact == "Banked at [pii:iban]"
    assert said[refused.pk].fact == refused.fact
    assert [entry.fact_id for entry in talk.entries()] == [masked.pk]
    again = rescan(scope=talk.wide, now=NOW)
    assert (again.tagged.total(), again.masked.total(), again.left.total()) == (0, 0, 1)


@pytest.mark.req("A21", "B14")
def test_command_tells_what_it_found_never_the_text_and_leaves_other_tenants(
    committed_db: None,
) -> None:
    talk, other = make_talk(), make_talk()
    for each in (talk, other):
        tell(each.thread, [(MOBILE, "ok")])
        with scoped_transaction(each.wide):
            Message.objects.in_scope(each.wide).update(pii=[])
    out = StringIO()
    call_command("rescan_memory", "--tenant", talk.tenant.slug, "--json", stdout=out)
    told = json.loads(out.getvalue())
    assert told["tagged"] == {"messages": 1}
    assert MOBILE not in out.getvalue()
    assert other.messages()[0].pii == []
    with scoped_transaction(talk.wide):
        rows = AuditEntry.objects.in_scope(talk.wide).filter(action="memory_rescanned")
        (row,) = rows
    assert row.detail["tagged"] == 1
