"""What staff decides about, made as the product makes it; and the posts of a desk."""

from __future__ import annotations

import re
from typing import Any

from django.test import Client
from django.utils import timezone

from governance.core.candidates import add_candidate
from governance.core.clearing import StatedFact
from governance.entities.corrections import Place, Said, record_correction
from governance.entities.proposals import propose
from governance.models import AuditEntry, CoreCandidate, EntityCandidate, TenantPolicy
from governance.policy_rules import RULES, Policy
from memory.rls import scoped_transaction
from tests.factories import scope_of
from tests.governance.admin.worlds import World, url_of

_SEEN = re.compile(r'name="seen" value="(\w*)"')


def policy() -> Policy:
    """The policy of a tenant that chose nothing."""
    return Policy(values={name: rule.default for name, rule in RULES.items()})


def choose(world: World, **overrides: Any) -> None:
    """Let the tenant's policy say otherwise."""
    with scoped_transaction(scope_of(world.tenant)):
        rows = TenantPolicy.objects.in_scope(scope_of(world.tenant))
        if not rows.update(overrides=overrides):
            TenantPolicy.objects.create(tenant=world.tenant, overrides=overrides)


def learn(world: World, fact: str, **values: Any) -> CoreCandidate:
    """A fact about the world's person that waits."""
    stated = StatedFact(fact=fact, origin="run", by="worker", run_id=world.run.pk, **values)
    added = add_candidate(
        scope=scope_of(world.tenant), end_user_id=world.end_user.pk, stated=stated,
        policy=policy(), now=timezone.now(),
    )  # fmt: skip
    assert added.candidate is not None
    return added.candidate


def propose_term(world: World, term: str, wrong: str = "", right: str = "") -> EntityCandidate:
    """A term that waits, with one correction about the world's message behind it."""
    scope = scope_of(world.tenant)
    place = Place(
        end_user_id=world.end_user.pk, thread_id=world.thread.pk, message_id=world.message.pk,
        run_id=world.run.pk, run_status="succeeded",
    )  # fmt: skip
    said = Said(entity_type="course", term=term, wrong=wrong, right=right)
    record_correction(scope=scope, place=place, said=said, now=timezone.now())
    propose(scope=scope, now=timezone.now())
    (found,) = rows_of(world, EntityCandidate, term=term)
    assert isinstance(found, EntityCandidate)
    return found


def rows_of(world: World, model: Any, **found: Any) -> list[Any]:
    """The rows of a world, as they are now."""
    with scoped_transaction(scope_of(world.tenant)):
        return list(model.objects.in_scope(scope_of(world.tenant)).filter(**found).order_by("id"))


def row_of(world: World, row: Any) -> Any:
    """A row as it is now."""
    (found,) = rows_of(world, type(row), pk=row.pk)
    return found


def audited(world: World, row: Any) -> list[tuple[str, str]]:
    """Who did what to a row."""
    entries = rows_of(world, AuditEntry, target_id=row.pk)
    return [(entry.action, entry.actor) for entry in entries]


def page(client: Client, row: Any) -> str:
    """The page of a row."""
    answer = client.get(url_of(type(row), f"{row.pk}/change/"))
    assert answer.status_code == 200, answer.status_code
    return str(answer.content.decode())


def seen_on(html: str) -> str:
    """What an open page remembers of the row."""
    found = _SEEN.search(html)
    return found.group(1) if found else ""


def decide(client: Client, row: Any, choice: str, seen: str | None = None, **values: Any) -> str:
    """Press a button of the row's page; return the page that follows."""
    posted = {"choice": choice, "seen": seen_on(page(client, row)) if seen is None else seen}
    answer = client.post(url_of(type(row), f"{row.pk}/decide/"), posted | values, follow=True)
    assert answer.status_code == 200, answer.status_code
    return str(answer.content.decode())


def send(client: Client, model: Any, action: str, ids: list[str], **values: Any) -> Any:
    """Run an action on selected rows of a list."""
    chosen = {"action": action, "_selected_action": ids, "index": 0} | values
    return client.post(url_of(model), chosen, follow=True)
