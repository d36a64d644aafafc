"""Turns of an erased person in other persons' threads: blanked, and made anew what they told."""

from __future__ import annotations

from typing import Any

import pytest

from governance.erasure.requests import preview
from governance.models.erasure import ErasureStatus
from memory.models import EndUser, Tenant
from memory.rls import scoped_transaction
from tests.factories import make_agent, make_end_user, make_tenant, make_thread, scope_of
from tests.governance.erasure.scenes import erase, values
from tests.recalling import Talk
from tests.talking import tell
from threads.forgetting.blanking import PLACEHOLDER, blank_speaker
from threads.models import Message, Run, RunTrace, ThreadSummary
from threads.turns import RecordedMessage

pytestmark = pytest.mark.usefixtures("committed_db")

SECRET = "I moved to 杭州 with my sister 😀"


def group_chat(tenant: Tenant, owner: EndUser, *speakers: str) -> Talk:
    """A thread of one person in which each speaker says the same, and is answered."""
    thread = make_thread(make_agent(tenant), owner)
    for speaker in speakers:
        said = (
            RecordedMessage(role="user", content=f"{SECRET}, says {speaker}", speaker=speaker),
            RecordedMessage(role="assistant", content=f"noted for {len(speaker)}"),
        )
        text = f"{SECRET}, says {speaker}"
        tell(thread, [(text, f"noted for {len(speaker)}")], messages=said)
    return Talk(tenant=tenant, thread=thread)


def said_in(a: Talk) -> list[tuple[str, str | None]]:
    return [(one.content, one.speaker) for one in a.messages() if one.role == "user"]


def blank(tenant: Tenant, user_id: str, **changes: Any) -> dict[str, int]:
    given: dict[str, Any] = {"hold": lambda: None, "is_dry_run": False} | changes
    return dict(blank_speaker(tenant_id=tenant.pk, user_id=user_id, **given))


@pytest.mark.req("B19")
def test_erasing_a_person_blanks_their_turns_in_threads_of_others() -> None:
    """Case 163: the speaker's words and name go; other speakers, tenants and strangers stay."""
    tenant, other = make_tenant(), make_tenant()
    person, owner = make_end_user(tenant, user_id="Zoë-7"), make_end_user(tenant)
    a = group_chat(tenant, owner, "ZOE\N{COMBINING DIAERESIS}-7", "王老师", "Zoë-77")
    stranger = group_chat(other, make_end_user(other), "Zoë-7")
    kept = said_in(stranger)
    told = preview(scope=scope_of(tenant), person=person, mode="all")
    done = erase(person)
    assert done.status == ErasureStatus.DONE, done.error_code
    first, *others = said_in(a)
    assert first == (PLACEHOLDER, None)
    assert [speaker for _, speaker in others] == ["王老师", "Zoë-77"]
    assert all(SECRET in text for text, _ in others)
    assert said_in(stranger) == kept
    with scoped_transaction(a.wide):
        runs = list(Run.objects.in_scope(a.wide).order_by("seq"))
    assert [SECRET in run.input for run in runs] == [False, True, True]
    assert [run.output for run in runs] == ["noted for 6", "noted for 3", "noted for 6"]
    assert done.counts["blanked_messages"] == 1
    assert {name: n for name, n in sorted(told.counts.items()) if n} == values(done)


def test_what_was_made_of_blanked_turns_goes_and_is_asked_for_anew() -> None:
    tenant = make_tenant()
    a = group_chat(tenant, make_end_user(tenant), "gone", "stays")
    a.index()
    assert len(a.recalled()) == 2
    scope = scope_of(tenant, a.thread.end_user, a.thread)
    with scoped_transaction(scope):
        whose: dict[str, Any] = {"tenant": tenant, "end_user": a.thread.end_user}
        ThreadSummary.objects.create(
            **whose, thread=a.thread, rolling_summary="Moved to 杭州.", summary_upto_seq=2
        )
        quoting, other = Run.objects.in_scope(scope).order_by("seq")
        RunTrace.objects.create(
            **whose, run=quoting, messages=[{"content": f"Said: {SECRET}, says gone."}]
        )
        RunTrace.objects.create(**whose, run=other, messages=[{"content": "hello"}])
    counts = blank(tenant, "GONE")
    assert [one.said for one in a.recalled()] == [f"{SECRET}, says stays"]
    assert a.jobs_of("index_recall")
    with scoped_transaction(scope):
        assert not ThreadSummary.objects.in_scope(scope).exists()
        assert list(RunTrace.objects.in_scope(scope).values_list("run_id", flat=True)) == [other.pk]
    assert counts["blanked_recall_entries"] == 1
    assert blank(tenant, "gone") == {}
    a.index()
    assert all("says gone" not in one.said for one in a.recalled())


def test_a_dry_run_counts_the_same_and_changes_nothing() -> None:
    """Case 161, of shared threads."""
    tenant = make_tenant()
    a = group_chat(tenant, make_end_user(tenant), "gone", "stays")
    before = said_in(a)
    told = blank(tenant, "gone", is_dry_run=True)
    assert said_in(a) == before
    assert blank(tenant, "gone") == told
    with scoped_transaction(a.wide):
        assert Message.objects.in_scope(a.wide).filter(speaker="stays").count() == 1
