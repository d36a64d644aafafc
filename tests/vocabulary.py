"""Vocabularies for tests: corrections, candidates and entities made as the product makes them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db import connection

from governance.entities.corrections import Place, Said, record_correction
from governance.entities.decisions import approve_candidate
from governance.entities.proposals import propose
from governance.models import Correction, EntityCandidate
from memory.models import Entity, Tenant
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.factories import NOW, make_agent, make_end_user, make_tenant, make_thread
from threads.models import Thread

BY = "staff:1"


def wide(row: Thread | Entity | EntityCandidate) -> Scope:
    """The scope of a row's tenant."""
    return Scope(tenant_ids=(row.tenant_id,), principal_id="test")


def new_thread(tenant: Tenant | None = None) -> Thread:
    """A thread of a new person, of a new tenant if none is given."""
    tenant = tenant or make_tenant()
    return make_thread(make_agent(tenant), make_end_user(tenant))


def correct(
    thread: Thread, term: str, kind: str = "product", *, now: datetime = NOW, **said: str
) -> Correction:
    """A correction of the thread's person."""
    scope = wide(thread).narrowed(user_id=thread.end_user_id)
    place = Place(end_user_id=thread.end_user_id, thread_id=thread.pk)
    said_all = Said(entity_type=kind, term=term, **said)
    return record_correction(scope=scope, place=place, said=said_all, now=now)


def candidate_of(thread: Thread, term: str, kind: str = "product") -> EntityCandidate:
    """The candidate that a correction becomes evidence of."""
    made = correct(thread, term, kind)
    scope = wide(thread)
    while propose(scope=scope, now=NOW).is_more:
        pass
    with scoped_transaction(scope):
        row = Correction.objects.in_scope(scope).select_related("candidate").get(pk=made.pk)
    assert row.candidate is not None
    return row.candidate


def entity_of(
    thread: Thread, term: str, kind: str = "product", *, now: datetime = NOW, **values: Any
) -> Entity:
    """An active entity, corrected, proposed and approved; its row changed by `values`."""
    scope = wide(thread)
    candidate = candidate_of(thread, term, kind)
    _, entity = approve_candidate(scope=scope, candidate_id=candidate.pk, by=BY, now=now)
    assert entity is not None
    if values:
        with scoped_transaction(scope):
            Entity.objects.in_scope(scope).filter(pk=entity.pk).update(**values)
    return read(entity)


def read(entity: Entity) -> Entity:
    """The entity as it is now."""
    scope = wide(entity)
    with scoped_transaction(scope):
        return Entity.objects.in_scope(scope).get(pk=entity.pk)


def make_vocabulary(thread: Thread, waiting: str, active: str) -> tuple[EntityCandidate, Entity]:
    """A candidate that waits and an entity."""
    entity = entity_of(thread, active, "product")
    return candidate_of(thread, waiting, "person"), entity


def at_once(acts: list[Callable[[], object]]) -> list[object]:
    """Do several things at the same moment, each with its own connection; what came of each."""
    barrier = threading.Barrier(len(acts))
    results: list[object] = [None] * len(acts)

    def do(place: int) -> None:
        barrier.wait()
        try:
            results[place] = acts[place]()
        except Exception as error:  # noqa: BLE001 - what went wrong is a result
            results[place] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=do, args=(place,)) for place in range(len(acts))]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return results
