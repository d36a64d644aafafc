"""Who may sit before a chat page, and when a page ends."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from governance.admin.suspension import suspend_tenant
from governance.keys import revoke_key
from governance.models import ApiKey, AuditEntry
from governance.permissions import Role
from memory.models import EndUser
from memory.rls import scoped_transaction
from tests.factories import make_agent, make_end_user, make_staff, scope_of
from tests.governance.admin.worlds import signed_in
from tests.threads.api.client import Api, Place
from tests.threads.pages.conftest import Sitter, by_link, sit
from threads.chat_links import link_path, open_seat
from threads.models import Agent
from threads.pages.urls import urlpatterns


def seats_of(place: Place) -> list[ApiKey]:
    scope = scope_of(place.tenant)
    with scoped_transaction(scope):
        return list(ApiKey.objects.in_scope(scope).filter(name="chat page").order_by("id"))


def ended(answer: object) -> bool:
    return answer.status_code == 403 and b"This page has ended" in answer.content  # type: ignore[attr-defined]


@pytest.mark.req("A14")
def test_a_link_opens_the_page_of_its_person_alone(a: Place, sitter: Sitter) -> None:
    page = sitter.get()
    assert page.status_code == 200
    assert a.canary in page.content.decode()
    assert page["Cache-Control"] == "private, no-store"
    cookie = sitter.client.cookies["credence_seat"]
    assert cookie["path"] == sitter.at()
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"
    [key] = seats_of(a)
    assert (key.agent_id, key.end_user_id) == (a.agent.pk, a.person.pk)
    assert sorted(key.scopes) == ["read", "run", "write"]


def test_a_changed_link_opens_nothing(a: Place) -> None:
    key = open_seat(
        scope=scope_of(a.tenant), agent_id=a.agent.pk, user_id=a.person.user_id,
        now=timezone.now(), lasts=timedelta(hours=1), is_shared=False,
    )  # fmt: skip
    path = link_path(key)
    for wrong in (path[:-1], path + "x", "/chat/open/x", "/chat/open/e30:1:x"):
        answer = Client().get(wrong)
        assert ended(answer), wrong
        assert "credence_seat" not in answer.cookies


def test_a_seat_without_its_cookie_or_with_anothers_is_nobodys(a: Place, b: Place) -> None:
    mine, theirs = by_link(a), by_link(b)
    assert ended(Client().get(mine.at()))
    theirs.client.cookies["credence_seat"]["path"] = "/"
    assert ended(theirs.client.get(mine.at()))
    forged = Client()
    forged.cookies["credence_seat"] = "eyJ0IjoiYSJ9:1:abc"
    assert ended(forged.get(mine.at()))


def test_a_link_is_no_seat_and_a_seat_no_link(a: Place, sitter: Sitter) -> None:
    seat = sitter.client.cookies["credence_seat"].value
    assert ended(Client().get(f"/chat/open/{seat}"))
    forged = Client()
    forged.cookies["credence_seat"] = link_path(seats_of(a)[0]).removeprefix("/chat/open/")
    assert ended(forged.get(sitter.at()))


def test_the_page_ends_with_its_key(a: Place, sitter: Sitter) -> None:
    scope = scope_of(a.tenant)
    with scoped_transaction(scope):
        revoke_key(scope=scope, key_id=sitter.seat, now=timezone.now())
    assert ended(sitter.get())
    answer = sitter.post("ask", {"input": "still there?"})
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


def test_the_page_ends_by_itself(a: Place, sitter: Sitter) -> None:
    scope = scope_of(a.tenant)
    with scoped_transaction(scope):
        past = timezone.now() - timedelta(seconds=1)
        ApiKey.objects.in_scope(scope).filter(pk=sitter.seat).update(expires_at=past)
    assert ended(sitter.get())


def test_the_page_ends_when_its_person_is_being_erased(a: Place, sitter: Sitter) -> None:
    scope = scope_of(a.tenant)
    with scoped_transaction(scope):
        rows = EndUser.objects.in_scope(scope).filter(pk=a.person.pk)
        rows.update(erasing_at=timezone.now())
    assert ended(sitter.get())


def test_the_page_ends_with_its_tenant(a: Place, sitter: Sitter) -> None:
    scope = scope_of(a.tenant)
    with scoped_transaction(scope):
        suspend_tenant(scope, a.tenant.pk, timezone.now())
    assert ended(sitter.get())


def test_an_agent_that_is_switched_off_takes_no_question(a: Place, sitter: Sitter) -> None:
    scope = scope_of(a.tenant)
    with scoped_transaction(scope):
        Agent.objects.in_scope(scope).filter(pk=a.agent.pk).update(is_active=False)
    assert sitter.post("ask", {"input": "hello"}).status_code in (404, 409)


def test_staff_sit_down_as_themselves_and_one_key_serves_all_visits(
    a: Place, staff: object
) -> None:
    client, answer = sit(staff, a)  # type: ignore[arg-type]
    assert answer.status_code == 302
    assert client.get(answer["Location"]).status_code == 200
    again = client.post("/chat/", {"agent_id": a.agent.pk})
    assert again["Location"] == answer["Location"]
    [key] = seats_of(a)
    with scoped_transaction(scope_of(a.tenant)):
        person = EndUser.objects.in_scope(scope_of(a.tenant)).get(pk=key.end_user_id)
        made = AuditEntry.objects.in_scope(scope_of(a.tenant)).filter(target_id=key.pk)
        assert [entry.action for entry in made] == ["key_created"]
        assert made[0].actor == f"staff:{staff.pk}"  # type: ignore[attr-defined]
    assert person.user_id == f"staff:{staff.username}"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("role", "own", "other"),
    [
        (Role.READER, 400, 400),
        (Role.COMPLIANCE, 400, 400),
        (Role.CURATOR, 302, 400),
        (Role.ADMIN, 302, 302),
    ],
)
def test_roles_that_may_talk_and_for_whom(a: Place, role: Role, own: int, other: int) -> None:
    member = make_staff(a.tenant, role)
    assert sit(member, a)[1].status_code == own
    assert sit(member, a, a.person.user_id)[1].status_code == other


def test_staff_of_another_tenant_find_no_agent(a: Place, b: Place) -> None:
    stranger = make_staff(b.tenant)
    client, answer = sit(stranger, a)
    assert answer.status_code == 400
    assert a.canary not in answer.content.decode()
    assert a.canary not in client.get("/chat/").content.decode()
    assert seats_of(a) == []


def test_a_seat_of_staff_is_of_no_use_to_anybody_else(a: Place, staff: object) -> None:
    client, answer = sit(staff, a, a.person.user_id)  # type: ignore[arg-type]
    address = answer["Location"]
    assert client.get(address).status_code == 200
    cookie = client.cookies["credence_seat"].value
    colleague = signed_in(make_staff(a.tenant))
    for other in (Client(), colleague):
        other.cookies["credence_seat"] = cookie
        assert ended(other.get(address))


def test_a_seat_of_staff_ends_with_the_grant(a: Place, staff: object) -> None:
    client, answer = sit(staff, a, a.person.user_id)  # type: ignore[arg-type]
    staff.groups.clear()  # type: ignore[attr-defined]
    assert ended(client.get(answer["Location"]))


def test_who_is_not_signed_in_is_sent_to_the_door() -> None:
    answer = Client().get("/chat/")
    assert (answer.status_code, answer["Location"]) == (302, "/admin/login/?next=%2Fchat%2F")


def test_the_api_makes_links_and_ends_them(a: Place) -> None:
    path = f"/v1/users/{a.person.user_id}/chat-links"
    made = a.api.post(path, {"agent_id": a.agent.pk, "expires_in_seconds": 600}).json()
    client = Client()
    answer = client.get(made["url"].removeprefix("http://testserver"))
    assert client.get(answer["Location"]).status_code == 200
    assert a.api.delete(f"/v1/keys/{made['id']}").status_code == 204
    assert ended(client.get(answer["Location"]))


def test_the_api_refuses_links_that_last_too_long_or_for_no_agent(a: Place, b: Place) -> None:
    path = f"/v1/users/{a.person.user_id}/chat-links"
    for seconds in (0, 299, 30 * 86400 + 1, "1h"):
        body = {"agent_id": a.agent.pk, "expires_in_seconds": seconds}
        assert a.api.post(path, body).status_code == 400
    assert a.api.post(path, {"agent_id": b.agent.pk}).status_code == 404
    assert seats_of(a) == []


def test_a_link_says_its_secret_once_even_when_repeated(a: Place) -> None:
    path = f"/v1/users/{a.person.user_id}/chat-links"
    headers = {"Idempotency-Key": "one"}
    first = a.api.post(path, {"agent_id": a.agent.pk}, headers=headers).json()
    second = a.api.post(path, {"agent_id": a.agent.pk}, headers=headers).json()
    assert first["id"] == second["id"]
    assert second.get("url") is None
    assert len(seats_of(a)) == 1


def test_nothing_of_the_seats_key_can_be_used_as_an_api_key(a: Place, sitter: Sitter) -> None:
    cookie = sitter.client.cookies["credence_seat"].value
    for raw in (sitter.seat, cookie):
        assert Api(raw).get("/v1/users").status_code == 401


def test_every_address_below_a_seat_asks_for_the_seat(a: Place, sitter: Sitter) -> None:
    """The walk: a new address without a seat fails here."""
    below = [str(one.pattern) for one in urlpatterns if "seat_id" in str(one.pattern)]
    assert len(below) >= 18
    for pattern in below:
        path = "/chat/" + pattern.replace("<str:seat_id>", sitter.seat)
        path = path.replace("<str:thread_id>", a.thread.pk).replace("<str:run_id>", a.run.pk)
        path = path.replace("<str:", "").replace(">", "")
        for send in (Client().get, Client().post):
            answer = send(path, headers={"X-Credence-Fragment": "1"})
            assert answer.status_code in (401, 405), (pattern, answer.status_code)
            assert a.canary not in answer.content.decode()


def test_every_act_asks_for_the_csrf_token(a: Place) -> None:
    sitter = by_link(a, Client(enforce_csrf_checks=True))
    for tail in ("ask", "memory/facts", f"threads/{a.thread.pk}/rename", "consent",
                 f"threads/{a.thread.pk}/archive", f"runs/{a.run.pk}/stop"):  # fmt: skip
        answer = sitter.post(tail, {"input": "x", "title": "y", "fact": "z"})
        assert answer.status_code == 403, tail
    page = sitter.get().content.decode()
    assert a.canary in page
    assert 'name="csrfmiddlewaretoken"' in page


def test_a_person_of_the_same_tenant_is_out_of_reach(a: Place) -> None:
    other = make_end_user(a.tenant, "somebody-else")
    sitter = by_link(a, user_id=other.user_id)
    assert a.canary not in sitter.get().content.decode().replace(a.agent.name, "")
    for tail in (f"threads/{a.thread.pk}/turns", f"runs/{a.run.pk}", f"runs/{a.run.pk}/used"):
        assert sitter.get(tail).status_code == 404, tail
    for tail in (f"threads/{a.thread.pk}/rename", f"threads/{a.thread.pk}/archive",
                 f"threads/{a.thread.pk}/terms"):  # fmt: skip
        body = {"title": "t", "term": "t", "entity_type": "product"}
        assert sitter.post(tail, body).status_code == 404, tail


def test_another_agent_is_out_of_reach(a: Place) -> None:
    other = make_agent(a.tenant, a.provider, name="another")
    sitter = by_link(a, agent_id=other.pk)
    assert a.canary not in sitter.get().content.decode()
    assert sitter.get(f"threads/{a.thread.pk}/turns").status_code == 404
