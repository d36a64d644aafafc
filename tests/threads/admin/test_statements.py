"""How many statements the pages of staff take: at most ten, however much there is."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from governance.models import AuditEntry, CoreCandidate, EntityCandidate
from memory.models import Job, MemoryItem, MemoryOp
from tests.governance.admin.worlds import World, make_world, signed_in, url_of
from tests.threads.figures.made import call, ended
from threads.models import Message, Run, Thread

MOST = 10
_AROUND = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")
LISTS: tuple[type[Model], ...] = (
    Run, Thread, Message, CoreCandidate, EntityCandidate, MemoryItem, AuditEntry, Job, MemoryOp,
)  # fmt: skip


@pytest.fixture
def world(committed_db: None) -> World:
    """A tenant with a row in every room, and a second run."""
    made = make_world("counted")
    ended(made.thread, at=timezone.now(), past=0)
    call(made.tenant, at=timezone.now(), tokens=900, usd="0.1")
    return made


def statements(client: Client, url: str) -> list[str]:
    client.get(url)  # what a process reads once is read
    with CaptureQueriesContext(connection) as seen:
        assert client.get(url).status_code == 200
    return [query["sql"] for query in seen if not query["sql"].startswith(_AROUND)]


def test_dashboard_takes_at_most_ten_statements(world: World) -> None:
    for query in ("", "?days=90", f"?tenant={world.tenant.pk}&days=7"):
        taken = statements(signed_in(world.staff), f"/admin/{query}")
        assert len(taken) <= MOST, taken


@pytest.mark.parametrize("model", LISTS, ids=lambda model: model.__name__)
def test_lists_take_at_most_ten_statements(world: World, model: type[Model]) -> None:
    client = signed_in(world.staff)
    for query in ("", f"?tenant__id__exact={world.tenant.pk}", f"?q={world.rows[model]}"):
        taken = statements(client, url_of(model) + query)
        assert len(taken) <= MOST, taken
