"""Erasing while somebody decides about the person's memory: whoever comes last finds nothing."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from django.utils import timezone

from governance.core.candidates import add_candidate
from governance.core.clearing import StatedFact
from governance.erasure.work import do_erasure
from governance.models import CoreCandidate
from governance.models.erasure import ErasureStatus
from tests.asgi_client import AsgiClient
from tests.factories import make_agent, make_end_user, make_key, make_tenant, make_thread, scope_of
from tests.governance.admin.learned import policy
from tests.governance.erasure.scenes import no_tagged, read, rows_naming
from tests.governance.erasure.test_in_flight import BOOKS, in_a_thread, sent
from tests.governance.erasure.test_work import ask
from tests.talking import tell

FACT = "Keeps 17 bees in Hangzhou"
_WAITS_FOR_A_ROW = """
    SELECT count(*) FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND query ILIKE '%%governance_corecandidate%%'
        AND pid <> pg_backend_pid()
"""


@pytest.fixture
def scene(committed_db: None) -> dict[str, Any]:
    """A person about whom a fact waits."""
    tenant = make_tenant()
    agent, key = make_agent(tenant), make_key(tenant)
    person = make_end_user(tenant, user_id="teacher-7")
    thread = make_thread(agent, person)
    tell(thread, [(FACT, "noted")])
    added = add_candidate(
        scope=scope_of(tenant), end_user_id=person.pk, policy=policy(), now=timezone.now(),
        stated=StatedFact(fact=FACT, origin="api", by="test"),
    )  # fmt: skip
    assert added.candidate is not None
    return {"tenant": tenant, "key": key, "person": person, "candidate": added.candidate}


def confirm(scene: dict[str, Any], candidate: CoreCandidate) -> int:
    """The status of the answer to confirming it."""
    path = f"/v1/core-candidates/{candidate.pk}/confirm"
    return int(sent(AsgiClient(), "POST", path, {}, headers=scene["key"].headers).status)


def test_case_157_purge_while_an_approval_is_open(
    scene: dict[str, Any], superuser_url: str
) -> None:
    """An approval stops half-way at a locked row, the erasure comes, then both go on."""
    person, candidate = scene["person"], scene["candidate"]
    asked = ask(person)
    with ThreadPoolExecutor(2) as pool, psycopg.connect(superuser_url) as holder:
        holder.execute(
            "SELECT 1 FROM governance_corecandidate WHERE id = %s FOR UPDATE", [candidate.pk]
        )
        deciding = pool.submit(in_a_thread, lambda: confirm(scene, candidate))
        with psycopg.connect(superuser_url, autocommit=True) as watcher:
            until = time.monotonic() + 60
            while time.monotonic() < until:
                (waiting,) = watcher.execute(_WAITS_FOR_A_ROW).fetchone() or (0,)
                if waiting:
                    break
                time.sleep(0.05)
            assert waiting, "the approval never came to the row"
        erasing = pool.submit(
            in_a_thread,
            lambda: do_erasure(erasure_id=asked.pk, tagged=no_tagged, now=timezone.now()),
        )
        holder.rollback()
        assert deciding.result(timeout=90) in (200, 404, 409)
        assert erasing.result(timeout=90)
    assert read(asked).status == ErasureStatus.DONE
    assert set(rows_naming(superuser_url, person.pk, candidate.pk, FACT)) <= BOOKS


def test_case_157_an_approval_after_the_purge_finds_nothing(
    scene: dict[str, Any], superuser_url: str
) -> None:
    asked = ask(scene["person"])
    assert do_erasure(erasure_id=asked.pk, tagged=no_tagged, now=timezone.now())
    assert confirm(scene, scene["candidate"]) == 404
    assert set(rows_naming(superuser_url, scene["person"].pk, FACT)) <= BOOKS
