"""The desk of core memory: evidence read, decided once, said who did, never over a stale page."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from governance.models import CoreCandidate
from governance.permissions import Role
from memory.models import CoreFact
from memory.rls import scoped_transaction
from tests.factories import make_staff, scope_of
from tests.governance.admin.learned import (
    audited,
    choose,
    decide,
    learn,
    page,
    row_of,
    rows_of,
    seen_on,
)
from tests.governance.admin.worlds import World, signed_in, url_of

HOSTILE = "<img src=x onerror=alert(1)> javascript:x \u202eevil\u200b 喜欢"


def facts(world: World) -> list[str]:
    found = rows_of(world, CoreFact, valid_to__isnull=True)
    return [row.fact for row in found if world.word not in row.fact]


@pytest.mark.req("E05")
@pytest.mark.req("A18")
def test_page_shows_evidence_what_ends_and_what_is_alike(
    beta: World, client_of_beta: Client
) -> None:
    old = learn(beta, "最喜欢的颜色是绿色", subject="颜色")
    decide(client_of_beta, old, "confirm")
    near = learn(beta, "她教五年级的数学课和语文课")
    decide(client_of_beta, near, "confirm")
    new = learn(
        beta, "最喜欢的颜色是蓝色", subject="颜色", evidence="我现在最喜欢的颜色是蓝色了",
        confidence=0.9,
    )  # fmt: skip
    html = page(client_of_beta, new)
    assert "我现在最喜欢的颜色是蓝色了" in html
    assert "These facts about the same subject would end" in html
    assert "最喜欢的颜色是绿色" in html
    assert "No other fact would end" in page(client_of_beta, learn(beta, "他养了一只猫"))
    like = page(client_of_beta, learn(beta, "她教五年级的数学课"))
    assert "她教五年级的数学课和语文课" in like.partition("Facts much like it")[2]


@pytest.mark.req("E05")
def test_confirm_makes_one_fact_and_one_audit_row(beta: World, client_of_beta: Client) -> None:
    candidate = learn(beta, "Teaches grade five 五年级")
    html = decide(client_of_beta, candidate, "confirm")
    assert "Done." in html
    decided = row_of(beta, candidate)
    actor = f"staff:{beta.staff.pk}"
    assert (decided.status, decided.decided_by_kind, decided.decided_by_id) == (
        "confirmed", "staff", actor,
    )  # fmt: skip
    assert facts(beta) == ["Teaches grade five 五年级"]
    assert ("core_candidate_confirmed", actor) in audited(beta, candidate)


def test_confirm_in_other_words_stores_those(beta: World, client_of_beta: Client) -> None:
    candidate = learn(beta, "Teaches grade fife")
    decide(client_of_beta, candidate, "edit", fact="Teaches grade five")
    assert facts(beta) == ["Teaches grade five"]


def test_edit_that_the_gate_refuses_changes_nothing(beta: World, client_of_beta: Client) -> None:
    candidate = learn(beta, "Lives nearby")
    for bad in ("", "x" * 121, "他得了抑郁症"):
        html = decide(client_of_beta, candidate, "edit", fact=bad)
        assert "errorlist" in html or 'class="error"' in html, bad
    assert row_of(beta, candidate).status == "pending"
    assert facts(beta) == []


@pytest.mark.req("E05")
def test_reject_needs_a_reason_and_stays_rejected_until_reopened(
    beta: World, client_of_beta: Client
) -> None:
    candidate = learn(beta, "Owns a red car")
    assert "Reason: This field is required." in decide(client_of_beta, candidate, "reject")
    assert row_of(beta, candidate).status == "pending"
    decide(client_of_beta, candidate, "reject", reason="玩笑话")
    assert (row_of(beta, candidate).status, row_of(beta, candidate).reason) == (
        "rejected",
        "玩笑话",
    )
    assert learn(beta, "Owns a red car").status == "rejected"
    decide(client_of_beta, candidate, "reopen")
    assert row_of(beta, candidate).status == "pending"
    acts = [action for action, _ in audited(beta, candidate)]
    assert acts[-2:] == ["core_candidate_rejected", "core_candidate_reopened"]


@pytest.mark.req("E05")
def test_second_click_and_stale_page_say_who_decided_and_when(
    beta: World, client_of_beta: Client
) -> None:
    candidate = learn(beta, "Owns a blue car")
    seen = seen_on(page(client_of_beta, candidate))
    other = make_staff(beta.tenant, role=Role.CURATOR)
    decide(signed_in(other), candidate, "reject", reason="no")
    for choice in ("confirm", "reject"):
        html = decide(client_of_beta, candidate, choice, seen=seen, reason="mine")
        assert f"Rejected by {other.username} (staff:{other.pk})" in html
    assert row_of(beta, candidate).reason == "no"
    assert facts(beta) == []


def test_page_of_other_words_than_now_decides_nothing(beta: World, client_of_beta: Client) -> None:
    """Four eyes: the first approver edits it while the second one's page is open."""
    choose(beta, four_eyes=True)
    candidate = learn(beta, "Owns a green car")
    seen = seen_on(page(client_of_beta, candidate))
    other = signed_in(make_staff(beta.tenant, role=Role.CURATOR))
    assert "Your approval is noted" in decide(other, candidate, "edit", fact="Owns two cars")
    assert "has changed since you opened it" in decide(
        client_of_beta, candidate, "confirm", seen=seen
    )
    assert facts(beta) == []
    decide(client_of_beta, candidate, "confirm")
    assert facts(beta) == ["Owns two cars"]


def test_four_eyes_same_person_twice_is_told_so(beta: World, client_of_beta: Client) -> None:
    choose(beta, four_eyes=True)
    candidate = learn(beta, "Owns a boat")
    decide(client_of_beta, candidate, "confirm")
    assert "Policy asks for two people here" in decide(client_of_beta, candidate, "confirm")
    assert facts(beta) == []


@pytest.mark.req("A20")
def test_full_core_memory_names_who_makes_room_and_asks_first(
    beta: World, client_of_beta: Client
) -> None:
    choose(beta, core_facts=2)  # the world's own fact is one
    decide(client_of_beta, learn(beta, "Sings alto"), "confirm")
    third = learn(beta, "Plays chess")
    html = page(client_of_beta, third)
    assert "Core memory is full" in html
    assert f"{beta.word} holds" in html.partition("Core memory is full")[2]
    assert "Core memory is full" in decide(client_of_beta, third, "confirm")
    assert facts(beta) == ["Sings alto"]
    decide(client_of_beta, third, "confirm", may_evict="on")
    assert facts(beta) == ["Sings alto", "Plays chess"]


@pytest.mark.req("A19")
def test_queue_puts_what_waits_first_and_the_likeliest_before(
    beta: World, client_of_beta: Client
) -> None:
    low, high = learn(beta, "Likes tea", confidence=0.2), learn(beta, "Likes rice", confidence=0.9)
    gone = learn(beta, "Likes soup", confidence=1.0)
    decide(client_of_beta, gone, "reject", reason="no")
    listed = client_of_beta.get(url_of(CoreCandidate)).content.decode()
    assert listed.index(high.pk) < listed.index(low.pk) < listed.index(gone.pk)
    before_next = page(client_of_beta, low).partition('rel="next"')[0]
    assert high.pk in before_next.rpartition("href=")[2].replace("_5F", "_")


def test_hostile_text_is_escaped_in_list_page_and_message(
    beta: World, client_of_beta: Client
) -> None:
    """Attack 83."""
    candidate = learn(beta, "Likes cake")
    scope = scope_of(beta.tenant)
    with scoped_transaction(scope):
        rows = CoreCandidate.objects.in_scope(scope).filter(pk=candidate.pk)
        rows.update(fact=HOSTILE, subject=HOSTILE, evidence=HOSTILE)
    listed = client_of_beta.get(url_of(CoreCandidate)).content.decode()
    for html in (listed, page(client_of_beta, candidate)):
        assert "<img src=x" not in html
        assert "\u202e" not in html
        assert "U+202E" in html
        assert "U+200B" in html


@pytest.mark.req("B18")
def test_strangers_and_readers_decide_nothing(
    alpha: World, beta: World, client_of_beta: Client
) -> None:
    """Attack 25, 28: a foreign row is a row that is not there; a reader has no buttons."""
    candidate = learn(alpha, "Is a spy")
    posted = {"choice": "confirm", "seen": "x"}
    url = url_of(CoreCandidate, f"{candidate.pk}/decide/")
    answer = client_of_beta.post(url, posted, follow=True)
    assert candidate.pk not in answer.redirect_chain[-1][0]
    own = learn(beta, "Is a teacher")
    for role in (Role.READER, Role.COMPLIANCE):
        reader = signed_in(make_staff(beta.tenant, role=role))
        html = page(reader, own)
        assert "Is a teacher" in html
        assert 'name="choice"' not in html
        seen = seen_on(page(client_of_beta, own))
        own_url = url_of(CoreCandidate, f"{own.pk}/decide/")
        assert reader.post(own_url, {"choice": "confirm", "seen": seen}).status_code == 403
    assert row_of(alpha, candidate).status == row_of(beta, own).status == "pending"


def test_decisions_are_posted_with_a_token_and_one_of_the_choices(
    beta: World, client_of_beta: Client
) -> None:
    candidate = learn(beta, "Is punctual")
    url = url_of(CoreCandidate, f"{candidate.pk}/decide/")
    assert client_of_beta.get(url).status_code == 405
    assert client_of_beta.post(url, {"choice": "erase"}).status_code == 403
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(beta.staff, backend="django.contrib.auth.backends.ModelBackend")
    assert strict.post(url, {"choice": "confirm"}).status_code == 403
    assert row_of(beta, candidate).status == "pending"


def test_facts_are_changed_deleted_and_shown_with_what_they_replaced(
    beta: World, client_of_beta: Client
) -> None:
    for text in ("Reads Kafka", "Reads Lu Xun 鲁迅"):
        decide(client_of_beta, learn(beta, text, subject="books"), "confirm")
    holds = next(row for row in rows_of(beta, CoreFact) if row.fact == "Reads Lu Xun 鲁迅")
    ended = next(row for row in rows_of(beta, CoreFact) if row.fact == "Reads Kafka")
    assert "Reads Kafka" in page(client_of_beta, holds).partition("Before and after it")[2]
    assert ended.superseded_by_id == holds.pk
    decide(client_of_beta, holds, "change", fact="Reads Lao She 老舍", subject="books")
    assert facts(beta) == ["Reads Lao She 老舍"]
    decide(client_of_beta, holds, "delete")
    assert facts(beta) == []
    assert ("core_fact_deleted", f"staff:{beta.staff.pk}") in audited(beta, holds)


def test_list_of_facts_shows_those_that_hold_first(beta: World, client_of_beta: Client) -> None:
    for text in ("Walks to work", "Bikes to work"):
        decide(client_of_beta, learn(beta, text, subject="way"), "confirm")
    listed = client_of_beta.get(url_of(CoreFact)).content.decode()
    assert listed.index("Bikes to work") < listed.index("Walks to work")
    only = client_of_beta.get(url_of(CoreFact), {"end_reason__exact": "superseded"})
    assert only.context["cl"].result_count == 1


def test_page_costs_the_same_for_any_number_of_facts(beta: World, client_of_beta: Client) -> None:
    candidate = learn(beta, "Has many facts")

    def cost() -> int:
        with CaptureQueriesContext(connection) as captured:
            page(client_of_beta, candidate)
        return len(captured)

    cost()
    before = cost()
    for number in range(4):
        decide(client_of_beta, learn(beta, f"Has many facts and {number}"), "confirm")
    assert cost() == before
    assert before <= 19
