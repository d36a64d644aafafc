"""Case 155: a right that ends while a run is under way is gone at the run's next retrieval."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.utils import timezone

from governance.keys import revoke_key
from memory.models import TeamMember
from memory.rls import scoped_transaction
from memory.store import Owner
from tests.factories import make_key, make_thread, scope_of
from tests.shelving import file_document, make_person, make_team
from tests.threads.tools.rooms import Room

ASKED = "数据库备份口令单"


@pytest.fixture
def room(db: None) -> Room:
    """A person of a team whose document holds a canary."""
    person = make_person()
    team = make_team(person.tenant)
    with scoped_transaction(scope_of(person.tenant)):
        TeamMember.objects.create(tenant=person.tenant, team=team, end_user=person.end_user)
    file_document(person.tenant, [f"CNRY {ASKED}"], owner=Owner(team_id=team.pk))
    return Room(
        person.tenant, person.agent, person.end_user, make_thread(person.agent, person.end_user)
    )


@pytest.mark.req("B17")
def test_case_155_member_who_leaves_a_team_midway_finds_nothing_of_it(room: Room) -> None:
    scope = scope_of(room.tenant, room.person, room.thread)
    with scoped_transaction(scope_of(room.tenant)):
        members = TeamMember.objects.in_scope(scope_of(room.tenant))
        teams = tuple(members.values_list("team_id", flat=True))
    box = room.box(scope=replace(scope, team_ids=teams))
    assert "CNRY" in room.use("kb_search", box=box, query=ASKED).shown
    with scoped_transaction(scope_of(room.tenant)):
        TeamMember.objects.in_scope(scope_of(room.tenant)).delete()
    after = room.use("kb_search", box=box, query=ASKED)
    assert ("CNRY" in after.content, after.is_error) == (False, False)
    assert "CNRY" not in room.use("memory_search", box=box, query=ASKED).content


@pytest.mark.req("B17")
def test_case_155_run_whose_key_is_revoked_midway_retrieves_no_more(room: Room) -> None:
    room.say(f"CNRY {ASKED}")
    key = make_key(room.tenant)
    scope = replace(scope_of(room.tenant, room.person, room.thread), principal_id=key.id)
    box = room.box(scope=scope)
    assert "CNRY" in room.use("memory_grep", box=box, query=ASKED).content
    with scoped_transaction(scope_of(room.tenant)):
        revoke_key(scope=scope_of(room.tenant), key_id=key.id, now=timezone.now())
    for tool, arguments in (
        ("memory_grep", {"query": ASKED}),
        ("memory_search", {"query": ASKED}),
        ("kb_search", {"query": ASKED}),
        ("timeline", {}),
    ):
        found = room.use(tool, box=box, **arguments)
        assert (found.is_error, "CNRY" in found.content) == (True, False), tool
    other = room.box(scope=replace(scope, principal_id=make_key(room.tenant).id))
    assert "CNRY" in room.use("memory_grep", box=other, query=ASKED).content
