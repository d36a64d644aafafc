"""The desk of the vocabulary: corrections read, terms approved, weights looked at and decayed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from governance.admin.curves import curve_of
from governance.admin.entity_candidates import excerpt
from governance.entities.weights import decay
from governance.models import AuditEntry, EntityCandidate
from governance.permissions import Role
from memory.models import Entity, EntityEvent, EntityMerge
from memory.rls import scoped_transaction
from tests.factories import NOW, make_staff, scope_of
from tests.governance.admin.learned import (
    audited,
    choose,
    decide,
    page,
    propose_term,
    row_of,
    rows_of,
)
from tests.governance.admin.worlds import World, signed_in, url_of

DECAY = "/admin/memory/entity/decay/"


def entity(world: World, term: str) -> Entity:
    (found,) = rows_of(world, Entity, term=term)
    assert isinstance(found, Entity)
    return found


def let_idle(world: World, days: int, **found: Any) -> None:
    """Move what is known of hits and approvals into the past."""
    past = timezone.now() - timedelta(days=days)
    with scoped_transaction(scope_of(world.tenant)):
        rows = Entity.objects.in_scope(scope_of(world.tenant)).filter(**found)
        rows.update(approved_at=past, last_hit_at=None, last_decayed_at=None)


@pytest.mark.req("D11")
def test_page_shows_corrections_and_what_is_alike(beta: World, client_of_beta: Client) -> None:
    first = propose_term(beta, "Kubernetes", wrong="Kubernetties", right="Kubernetes")
    decide(client_of_beta, first, "approve")
    candidate = propose_term(beta, "Kubernetes Engine", wrong="engine", right="Kubernetes Engine")
    html = page(client_of_beta, candidate)
    assert f"{beta.word} content" in html  # the message it is about
    assert beta.thread.pk in html
    alike = html.partition("Entities much like it")[2]
    assert entity(beta, "Kubernetes").pk.replace("_", "_5F") in alike


@pytest.mark.req("D11")
@pytest.mark.req("E05")
def test_approve_makes_an_active_entity(beta: World, client_of_beta: Client) -> None:
    candidate = propose_term(beta, "标日", wrong="标日本语", right="标日")
    assert "Done." in decide(client_of_beta, candidate, "approve")
    made, actor = entity(beta, "标日"), f"staff:{beta.staff.pk}"
    assert (made.status, made.approved_by, made.candidate_id) == ("active", actor, candidate.pk)
    assert ("entity_candidate_approved", actor) in audited(beta, candidate)


def test_approve_under_another_name(beta: World, client_of_beta: Client) -> None:
    candidate = propose_term(beta, "Pythn")
    decide(client_of_beta, candidate, "edit", term="Python", entity_type="language")
    assert entity(beta, "Python").entity_type == "language"


@pytest.mark.req("D11")
def test_rejected_stays_on_record_with_its_reason_and_may_be_reopened(
    beta: World, client_of_beta: Client
) -> None:
    candidate = propose_term(beta, "Jokes")
    assert "This field is required." in decide(client_of_beta, candidate, "reject")
    decide(client_of_beta, candidate, "reject", reason="只是玩笑")
    assert "只是玩笑" in page(client_of_beta, candidate)
    assert propose_term(beta, "Jokes").status == "rejected"
    assert rows_of(beta, Entity, term="Jokes") == []
    assert "Rejected by" in decide(client_of_beta, candidate, "approve", seen="old")
    decide(client_of_beta, candidate, "reopen")
    assert row_of(beta, candidate).status == "pending"


def test_four_eyes_needs_a_second_member_of_staff(beta: World, client_of_beta: Client) -> None:
    choose(beta, four_eyes=True)
    candidate = propose_term(beta, "Quorum")
    assert "Your approval is noted" in decide(client_of_beta, candidate, "approve")
    assert "two people" in decide(client_of_beta, candidate, "approve")
    assert rows_of(beta, Entity, term="Quorum") == []
    decide(signed_in(make_staff(beta.tenant, role=Role.CURATOR)), candidate, "approve")
    assert entity(beta, "Quorum").status == "active"


def test_entity_page_draws_its_weight_without_script_or_style(
    beta: World, client_of_beta: Client
) -> None:
    (row,) = rows_of(beta, Entity, pk=beta.rows[Entity])
    html = page(client_of_beta, row)
    drawing = html.partition('<svg class="drawing"')[2].partition("</svg>")[0]
    assert "polyline" in drawing
    assert drawing.count("<circle") == 2
    assert "style=" not in drawing
    desk = html.partition('class="desk')[2].partition("</section>")[0]
    assert "<script" not in desk
    assert "onclick" not in desk


def test_curve_is_steps_inside_its_frame() -> None:
    events = [
        EntityEvent(at=NOW + timedelta(days=day), weight_after=weight)
        for day, weight in ((0, 1.0), (10, 2.0), (20, 0.5))
    ]
    drawn = curve_of(events)
    assert drawn is not None
    places = [tuple(map(float, pair.split(","))) for pair in drawn.points.split()]
    assert len(places) == 5
    assert all(0 <= x <= drawn.width and 0 <= y <= drawn.height for x, y in places)
    assert places[1][1] == places[0][1]
    assert curve_of(events[:1]) is None
    same = [EntityEvent(at=NOW, weight_after=1.0) for _ in range(2)]
    assert curve_of(same) is not None


def test_excerpt_is_cut_around_what_it_is_about() -> None:
    text = "开" * 500 + "标日" + "尾" * 500
    part = excerpt(text, ("", "标日"))
    assert "标日" in part
    assert part.startswith("… ")
    assert part.endswith(" …")
    assert len(part) < 260
    assert excerpt("short", ("none",)) == "short"


def test_names_are_changed_entities_retired_and_activated(
    beta: World, client_of_beta: Client
) -> None:
    decide(client_of_beta, propose_term(beta, "Django"), "approve")
    row = entity(beta, "Django")
    decide(client_of_beta, row, "edit", term="Django", aliases="dj\n姜戈\n")
    assert entity(beta, "Django").aliases == ["dj", "姜戈"]
    decide(client_of_beta, row, "retire")
    assert row_of(beta, row).status == "retired"
    assert "it is Retired" in decide(client_of_beta, row, "edit", seen="x", term="x", aliases="")
    decide(client_of_beta, row, "activate")
    assert row_of(beta, row).status == "active"


@pytest.mark.req("E05")
def test_decay_is_previewed_and_done_only_when_posted(beta: World, client_of_beta: Client) -> None:
    let_idle(beta, 91)
    before = [row.weight for row in rows_of(beta, Entity)]
    html = client_of_beta.get(DECAY).content.decode()
    assert "2 weights would be lowered" in html
    assert f"{beta.word} entity 1" in html
    assert "1.000" in html
    assert "0.900" in html
    assert [row.weight for row in rows_of(beta, Entity)] == before
    answer = client_of_beta.post(DECAY, {"tenant": beta.tenant.pk}, follow=True)
    assert "2 weights were lowered." in answer.content.decode()
    assert {row.weight for row in rows_of(beta, Entity)} == {0.9}
    entries = rows_of(beta, AuditEntry, action="weights_decayed")
    assert [entry.actor for entry in entries] == [f"staff:{beta.staff.pk}"]
    assert "0 weights would be lowered" in client_of_beta.get(DECAY).content.decode()


def test_decay_preview_lists_what_the_decay_lowers(beta: World, client_of_beta: Client) -> None:
    """The preview's own query and the decay's statement agree, also at the edges."""
    let_idle(beta, 90)
    (one, two) = rows_of(beta, Entity)
    with scoped_transaction(scope_of(beta.tenant)):
        rows = Entity.objects.in_scope(scope_of(beta.tenant))
        rows.filter(pk=one.pk).update(last_hit_at=timezone.now() - timedelta(days=89, hours=23))
        edges: tuple[dict[str, Any], ...] = (
            {"status": "retired"},
            {"weight": 0.1},
            {"last_decayed_at": timezone.now() - timedelta(days=3)},
            {"last_decayed_at": timezone.now() - timedelta(days=95), "weight": 0.105},
        )
        made = [
            Entity.objects.create(
                tenant=beta.tenant, entity_type="t", term=f"edge {number}", term_key=f"{number}",
                approved_at=timezone.now() - timedelta(days=100), approved_by="x",
                candidate_id=one.candidate_id, **values,
            )
            for number, values in enumerate(edges)
        ]  # fmt: skip
    listed = client_of_beta.get(DECAY).context["previews"][0]
    named = {row["row"].pk for row in listed["rows"]}
    assert named == {two.pk, made[3].pk}
    assert listed["report"].decayed == len(named)
    after = {row["row"].pk: row["after"] for row in listed["rows"]}
    scope = scope_of(beta.tenant)
    decay(scope=scope, now=timezone.now())
    assert {pk: row_of(beta, Entity(pk=pk)).weight for pk in named} == pytest.approx(after)


@pytest.mark.req("B18")
def test_decay_of_a_foreign_tenant_or_by_a_reader_is_refused(
    alpha: World, beta: World, client_of_beta: Client
) -> None:
    let_idle(alpha, 91)
    html = client_of_beta.get(DECAY).content.decode()
    assert alpha.word not in html
    assert client_of_beta.post(DECAY, {"tenant": alpha.tenant.pk}).status_code == 403
    assert client_of_beta.post(DECAY, {}).status_code == 403
    reader = signed_in(make_staff(beta.tenant, role=Role.READER))
    assert reader.get(DECAY).status_code == reader.post(DECAY).status_code == 403
    assert "Decay idle weights" not in reader.get(url_of(Entity)).content.decode()
    assert {row.weight for row in rows_of(alpha, Entity)} == {1.0}


def test_merges_are_done_refused_and_undone(beta: World, client_of_beta: Client) -> None:
    for term in ("Postgres", "PostgresQL"):
        decide(client_of_beta, propose_term(beta, term), "approve")
    (row,) = rows_of(beta, EntityMerge, source_id=entity(beta, "PostgresQL").pk)
    html = page(client_of_beta, row)
    assert "PostgresQL" in html
    decide(client_of_beta, row, "merge")
    assert entity(beta, "PostgresQL").status == "merged"
    assert "PostgresQL" in entity(beta, "Postgres").aliases
    decide(client_of_beta, row, "undo")
    assert entity(beta, "PostgresQL").status == "active"
    (other,) = rows_of(beta, EntityMerge, pk=beta.rows[EntityMerge])
    decide(client_of_beta, other, "refuse")
    assert row_of(beta, other).status == "refused"


def test_lists_name_aliases_idleness_and_evidence(beta: World, client_of_beta: Client) -> None:
    let_idle(beta, 40)
    listed = client_of_beta.get(url_of(Entity)).content.decode()
    assert f"{beta.word} alias" in listed
    assert ">40<" in listed
    propose_term(beta, "Kanban 看板")
    queue = client_of_beta.get(url_of(EntityCandidate)).content.decode()
    assert "Kanban 看板" in queue
