"""Who may erase many persons: only where it is granted, only by a post of their own page."""

from __future__ import annotations

import pytest
from django.test import Client

from governance.permissions import Role
from memory.ids import new_id
from memory.models import EndUser
from tests.factories import make_end_user, make_staff
from tests.governance.admin.erasing_pages import LIST, PAGE, erasures, post, read, select
from tests.governance.admin.worlds import World, signed_in


@pytest.fixture
def officer(beta: World) -> Client:
    """A compliance officer of beta."""
    return signed_in(make_staff(beta.tenant, role=Role.COMPLIANCE))


@pytest.fixture
def persons(beta: World) -> list[EndUser]:
    """Beta's person who has everything, and two who have nothing."""
    return [beta.end_user, make_end_user(beta.tenant), make_end_user(beta.tenant)]


@pytest.mark.req("B18")
def test_case_172_without_the_grant_nothing_is_shown_or_done(
    beta: World, officer: Client, persons: list[EndUser]
) -> None:
    page = read(select(officer, persons))
    for role in (Role.READER, Role.CURATOR):
        client = signed_in(make_staff(beta.tenant, role=role))
        assert select(client, persons).status_code == 403, role
        assert post(client, page, confirmed_number="3").status_code == 403, role
    assert erasures(beta, persons) == []


@pytest.mark.req("B18")
def test_a_tenant_one_only_reads_refuses_the_whole(alpha: World, beta: World) -> None:
    account = make_staff(beta.tenant, role=Role.COMPLIANCE)
    account.groups.add(make_staff(alpha.tenant, role=Role.READER).groups.get())
    client = signed_in(account)
    both = [alpha.end_user, beta.end_user]
    assert select(client, both).status_code == 403
    page = read(select(client, [beta.end_user]))
    ids = [person.pk for person in both]
    forged = page.fields | {"person": ids, "confirmed": ids, "mode": "all", "step": "erase"}
    assert client.post(PAGE, forged | {"confirmed_number": "2"}).status_code == 403
    assert erasures(beta, both) == erasures(alpha, both) == []


@pytest.mark.req("B18")
def test_case_25_foreign_persons_are_like_those_who_never_were(
    alpha: World, beta: World, officer: Client
) -> None:
    nobody = new_id("usr")
    posted = {"action": "erase_selected", "index": 0}
    ids = [alpha.end_user.pk, beta.end_user.pk, nobody, "\0", "usr_<b>"]
    page = read(officer.post(LIST, posted | {"_selected_action": ids}))
    assert page.line(alpha.end_user).replace(alpha.end_user.pk, nobody) in page.lines
    assert alpha.word not in page.html
    assert "usr_&lt;b&gt;" not in page.html
    assert page.fields["confirmed"] == [beta.end_user.pk]
    forged = page.fields | {"confirmed": [alpha.end_user.pk], "mode": "all", "step": "erase"}
    refused = read(officer.post(PAGE, forged | {"confirmed_number": "1"}))
    assert "1 of these persons can not be erased any more" in refused.html
    assert erasures(alpha, [alpha.end_user]) == erasures(beta, [beta.end_user]) == []


@pytest.mark.req("B18")
def test_two_tenants_persons_are_erased_each_in_their_own(alpha: World, beta: World) -> None:
    account = make_staff(beta.tenant, role=Role.COMPLIANCE)
    account.groups.add(make_staff(alpha.tenant, role=Role.COMPLIANCE).groups.get())
    client = signed_in(account)
    page = read(select(client, [alpha.end_user, beta.end_user]))
    read(post(client, page, confirmed_number="2"))
    for world in (alpha, beta):
        (asked,) = erasures(world, [alpha.end_user, beta.end_user])
        assert (asked.subject_id, asked.tenant_id) == (world.end_user.pk, world.tenant.pk)


def test_a_post_from_elsewhere_and_a_get_do_nothing(
    beta: World, officer: Client, persons: list[EndUser]
) -> None:
    page = read(select(officer, persons))
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = officer.cookies
    assert post(strict, page, confirmed_number="3").status_code == 403
    query = {"person": persons[0].pk, "mode": "all", "step": "erase", "confirmed_number": "1"}
    for asked in (query, {}):
        answer = officer.get(PAGE, asked, follow=True)
        assert "Select the persons to erase in this list first." in answer.content.decode()
    assert erasures(beta, persons) == []
