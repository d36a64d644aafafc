"""Erasing many persons from the list: counts first, their number typed, one erasure for each."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.test import Client
from django.utils import timezone

from governance.admin import erasing
from governance.erasure.holds import place_hold, release_hold
from governance.erasure.requests import preview, request_erasure
from governance.models import AuditEntry, Erasure
from governance.permissions import Role
from memory.models import EndUser
from tests.factories import make_end_user, make_staff, scope_of
from tests.governance.admin.erasing_pages import LIST, PAGE, erasures, post, read, select
from tests.governance.admin.learned import rows_of
from tests.governance.admin.worlds import World, make_world, signed_in, url_of
from tests.governance.erasure.scenes import erase


@pytest.fixture
def officer(beta: World) -> Client:
    """A compliance officer of beta."""
    return signed_in(make_staff(beta.tenant, role=Role.COMPLIANCE))


@pytest.fixture
def persons(beta: World) -> list[EndUser]:
    """Beta's person who has everything, and two who have nothing."""
    return [beta.end_user, make_end_user(beta.tenant), make_end_user(beta.tenant)]


def counts_of(world: World, person: EndUser, mode: str = "all") -> dict[str, int]:
    found = preview(scope=scope_of(world.tenant), person=person, mode=mode).counts
    return {name: number for name, number in sorted(found.items()) if number}


def line_of(counts: dict[str, int]) -> str:
    named = ", ".join(f"{name} {number}" for name, number in counts.items())
    return f"{sum(counts.values())} {named}"


@pytest.mark.req("B18")
def test_case_166_page_shows_counts_as_the_act_reports_them(
    beta: World, officer: Client, persons: list[EndUser]
) -> None:
    page = read(select(officer, persons))
    expected = [counts_of(beta, person) for person in persons]
    assert sum(expected[0].values()) > 10
    for person, counts in zip(persons, expected, strict=True):
        assert page.line(person).endswith(f"Would be erased. {line_of(counts)}")
    total = sum(sum(counts.values()) for counts in expected)
    assert f"erased: 3 of 3; rows or places that would go: {total}." in page.html
    assert f"persons {len(persons)}" in page.lines
    for text in ("question", "answer", "content", "summary", "knowledge"):
        assert f"{beta.word} {text}" not in page.html
    assert erasures(beta, persons) == []
    audited = rows_of(beta, AuditEntry, action="erasure_previewed", target_id=persons[1].pk)
    assert len(audited) == 2, "one by the page, one by this test"


def test_erases_each_and_leads_to_each_erasure(
    beta: World, officer: Client, persons: list[EndUser]
) -> None:
    page = read(select(officer, persons))
    done = read(post(officer, page, confirmed_number="3"))
    asked = erasures(beta, persons)
    assert {one.subject_id for one in asked} == {person.pk for person in persons}
    assert "Erasures that have begun: 3 of 3." in done.html
    for one in asked:
        assert (one.mode, one.origin) == ("all", "request")
        assert one.requested_by.startswith("staff:")
        assert f'href="/admin/governance/erasure/{quote(one.pk)}/change/"' in done.html
        assert len(rows_of(beta, AuditEntry, action="erasure_requested", target_id=one.pk)) == 1
        assert officer.get(url_of(Erasure, f"{one.pk}/change/")).status_code == 200


def test_whoever_is_under_legal_hold_is_left_out_and_told(
    beta: World, officer: Client, persons: list[EndUser]
) -> None:
    held, *others = persons
    place_hold(scope=scope_of(beta.tenant), person=held, reason="case", now=timezone.now())
    page = read(select(officer, persons))
    counts = counts_of(beta, held)
    assert page.line(held).endswith(f"Left out: Under legal hold. {line_of(counts)}")
    assert "Under legal hold, and so left out: 1." in page.html
    assert "erased: 2 of 3; rows or places that would go: 2." in page.html, "persons alone"
    assert page.fields["confirmed"] == sorted(person.pk for person in others)
    done = read(post(officer, page, confirmed_number="2"))
    assert {one.subject_id for one in erasures(beta, persons)} == {one.pk for one in others}
    assert f"{held.pk} Under legal hold." in done.lines


def test_a_hold_released_meanwhile_erases_nobody_who_was_left_out(
    beta: World, officer: Client, persons: list[EndUser]
) -> None:
    held, *others = persons
    scope = scope_of(beta.tenant)
    place_hold(scope=scope, person=held, reason="case", now=timezone.now())
    page = read(select(officer, persons))
    release_hold(scope=scope, person=held, now=timezone.now())
    done = read(post(officer, page, confirmed_number="2"))
    assert {one.subject_id for one in erasures(beta, persons)} == {one.pk for one in others}
    assert f"{held.pk} Was left out when the page was shown." in done.lines


@pytest.mark.parametrize("typed", ["", "2", "4", "three", "-3", "3.0", "³"])
def test_without_their_number_nobody_is_erased(
    beta: World, officer: Client, persons: list[EndUser], typed: str
) -> None:
    page = read(select(officer, persons))
    refused = read(post(officer, page, confirmed_number=typed))
    assert "This is not the number of persons" in refused.html
    assert erasures(beta, persons) == []
    assert refused.fields == page.fields
    assert 'name="confirmed_number"' in refused.html
    assert 'name="confirmed_number" value' not in refused.html, "it is typed anew"


def test_what_was_not_counted_is_not_erased(
    beta: World, officer: Client, persons: list[EndUser]
) -> None:
    page = read(select(officer, persons))
    tagged: dict[str, Any] = {"mode": "tagged", "kinds": ["email"], "before_at": "2026-01-31 12:00"}
    refused = read(post(officer, page, confirmed_number="3", **tagged))
    assert "something else was chosen than was counted" in refused.html
    assert erasures(beta, persons) == []
    (counted,) = refused.fields["counted"]
    assert counted != page.fields["counted"][0]
    read(post(officer, refused, confirmed_number="3", **tagged))
    for one in erasures(beta, persons):
        assert (one.mode, one.kinds) == ("tagged", ["email"])
        assert one.before_at is not None
        assert one.before_at.isoformat() == "2026-01-31T12:00:00+00:00"
    assert len(erasures(beta, persons)) == 3


def test_counting_anew_counts_what_is_chosen_and_erases_nobody(
    beta: World, officer: Client, persons: list[EndUser]
) -> None:
    page = read(select(officer, persons))
    tagged = read(post(officer, page, step="count", mode="tagged", confirmed_number="3"))
    counts = counts_of(beta, beta.end_user, mode="tagged")
    assert page.line(persons[0]).endswith(line_of(counts_of(beta, beta.end_user)))
    assert tagged.line(persons[0]).endswith(f"Would be erased. {line_of(counts)}".strip())
    assert erasures(beta, persons) == []


@pytest.mark.parametrize(
    ("posted", "said"),
    [
        ({"mode": "all", "kinds": ["email"]}, "Kinds and a time belong to an erasure"),
        ({"mode": "some"}, "Select a valid choice"),
        ({"mode": "tagged", "kinds": ["soul"]}, "Select a valid choice"),
        ({"mode": "tagged", "before_at": "yesterday"}, "Enter a valid date/time"),
    ],
)
def test_a_choice_that_is_none_counts_and_erases_nothing(
    beta: World, officer: Client, persons: list[EndUser], posted: dict[str, Any], said: str
) -> None:
    page = read(select(officer, persons))
    refused = read(post(officer, page, confirmed_number="3", **posted))
    assert said in refused.html
    assert "Nobody was erased." in refused.html
    assert refused.fields["confirmed"] == [], "without counts there is nothing to confirm"
    assert len(refused.fields["person"]) == 3
    assert erasures(beta, persons) == []


@pytest.mark.parametrize("meanwhile", ["erasure", "hold"])
def test_somebody_who_can_not_go_any_more_stops_all(
    beta: World, officer: Client, persons: list[EndUser], meanwhile: str
) -> None:
    scope, now, one = scope_of(beta.tenant), timezone.now(), persons[1]
    page = read(select(officer, persons))
    if meanwhile == "hold":
        place_hold(scope=scope, person=one, reason="case", now=now)
    else:
        begun = request_erasure(scope=scope, person=one, mode="all", now=now)
    refused = read(post(officer, page, confirmed_number="3"))
    assert "Nobody was erased: 1 of these persons can not be erased any more" in refused.html
    assert erasures(beta, [persons[0], persons[2]]) == []
    if meanwhile == "erasure":
        assert f"Another erasure of this person is not finished. {begun.pk}" in refused.line(one)
    read(post(officer, refused, confirmed_number="2"))
    assert len(erasures(beta, [persons[0], persons[2]])) == 2


def test_somebody_erased_meanwhile_is_told_and_stops_all(committed_db: None) -> None:
    world = make_world("erased-many")
    client = signed_in(make_staff(world.tenant, role=Role.COMPLIANCE))
    gone, stays = make_end_user(world.tenant), make_end_user(world.tenant)
    page = read(select(client, [gone, stays]))
    erasure = erase(gone)
    assert erasure.status == "done"
    refused = read(post(client, page, confirmed_number="2"))
    assert "Nobody was erased: 1 of these persons can not be erased any more" in refused.html
    assert f"Nobody is there under this id any more. {erasure.pk}" in refused.line(gone)
    assert erasures(world, [stays]) == []
    chosen = read(select(client, [gone, stays]))
    assert "Nobody is there under this id any more." in chosen.line(gone)
    read(post(client, chosen, confirmed_number="1"))
    assert len(erasures(world, [stays])) == 1


def test_sent_twice_it_erases_once(beta: World, officer: Client, persons: list[EndUser]) -> None:
    page = read(select(officer, persons))
    for _ in range(2):
        answer = read(post(officer, page, confirmed_number="3"))
    assert "Nobody was erased: 3 of these persons" in answer.html
    assert "None of these persons can be erased now." in answer.html
    assert len(erasures(beta, persons)) == 3


def test_what_fails_for_one_hinders_none_of_the_others(
    beta: World, officer: Client, persons: list[EndUser], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the page's look and the act somebody is placed under a hold: the domain refuses."""
    page = read(select(officer, persons))
    unlucky = persons[1]

    def asked(*, person: EndUser, **values: Any) -> Erasure:
        if person.pk == unlucky.pk:
            place_hold(scope=values["scope"], person=person, reason="", now=values["now"])
        return request_erasure(person=person, **values)

    monkeypatch.setattr(erasing, "request_erasure", asked)
    done = read(post(officer, page, confirmed_number="3"))
    assert "Erasures that have begun: 2 of 3." in done.html
    assert "Not erased: A legal hold is on this person" in done.line(unlucky)
    assert {one.subject_id for one in erasures(beta, persons)} == {persons[0].pk, persons[2].pk}


def test_more_than_a_hundred_are_refused(beta: World, officer: Client) -> None:
    persons = [make_end_user(beta.tenant, f"crowd-{number}") for number in range(101)]
    across = {"select_across": "1", "action": "erase_selected", "index": 0}
    answer = officer.post(
        f"{LIST}?q=crowd", across | {"_selected_action": persons[0].pk}, follow=True
    )
    assert "At most 100 persons are erased at once." in answer.content.decode()
    forged = {"person": [person.pk for person in persons], "mode": "all", "step": "count"}
    answer = officer.post(PAGE, forged, follow=True)
    assert "At most 100 persons are erased at once." in answer.content.decode()
    answer = officer.post(f"{LIST}?q=crowd-1", across | {"_selected_action": persons[0].pk})
    page = read(answer)
    assert len(page.fields["person"]) == 12, "1, 10 to 19, and 100: what the search found"
    assert erasures(beta, persons) == []


def test_whom_the_time_does_not_suffice_for_is_left_out(
    beta: World, officer: Client, persons: list[EndUser], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasing, "COUNTING_SECONDS", -1.0)
    page = read(select(officer, persons))
    for person in persons:
        assert "Left out: Not counted: that would have taken too long." in page.line(person)
    assert page.fields["confirmed"] == []


def test_a_name_is_shown_escaped_and_with_its_hidden_characters(
    beta: World, officer: Client
) -> None:
    sly = make_end_user(beta.tenant, "王小明\u202e<script>")
    page = read(select(officer, [sly]))
    assert "<script>" not in page.html.partition('id="content-main"')[2]
    assert "王小明" in page.html
    assert "U+202E" in page.html


def test_pages_speak_chinese(beta: World, officer: Client, persons: list[EndUser]) -> None:
    chinese = {"Accept-Language": "zh-CN"}
    place_hold(scope=scope_of(beta.tenant), person=persons[0], reason="", now=timezone.now())
    listed = officer.get(LIST, headers=chinese).content.decode()
    assert "删除所选人员…" in listed
    ids = [person.pk for person in persons]
    posted = {"action": "erase_selected", "_selected_action": ids, "index": 0}
    page = read(officer.post(LIST, posted, headers=chinese))
    for word in ("批量删除人员", "处于法律保全之下", "将删除 3 人中的 2 人", "重新统计"):
        assert word in page.html, word
    typed = {"mode": "all", "step": "erase", "confirmed_number": "２"}
    done = read(officer.post(PAGE, page.fields | typed, headers=chinese))
    assert "已开始 2 项删除中的 2 项" in done.html
    assert len(erasures(beta, persons)) == 2, "a full-width digit is the digit"
