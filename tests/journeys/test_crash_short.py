"""The short form of the crash tests, for every run of the suite: one web and one worker killed.

tests/journeys/test_crash.py (`make crash`) goes through all processes and points.
"""

from __future__ import annotations

import http.client
import subprocess
import sys
from collections.abc import Iterator

import pytest
from django.utils import timezone

from memory.rls import scoped_transaction
from tests.factories import make_agent, make_key, make_tenant, scope_of
from tests.instance import ROOT, free_port
from tests.jobbook import jobs_of
from tests.journeys.crash_client import Client
from tests.journeys.crash_processes import children, kill, wait_until
from tests.journeys.crash_provider import SYSTEM_PROMPT, Provider, question
from tests.journeys.crash_scene import marks
from tests.processes import environment_for_children
from tests.talking import fake_provider
from threads.models import Run, ThreadSummary
from threads.sweep import sweep

pytestmark = [pytest.mark.req("A24"), pytest.mark.usefixtures("committed_db")]

_DRAIN = "import django; django.setup(); from threads.tasks import drain; drain(0)"
_WEB = "granian --interface asginl --workers 1 --http 1 --no-ws --loop asyncio"
_LEASES = {"CREDENCE_RUN_LEASE_SECONDS": "3", "CREDENCE_JOB_LEASE_SECONDS": "2"}


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    with made.server:
        yield made


@pytest.fixture
def web() -> Iterator[tuple[int, int]]:
    """Port and parent of a web server that starts its process again when that is killed."""
    port = free_port()
    arguments = [*_WEB.split(), "--respawn-failed-workers", "--log-level", "critical"]
    with subprocess.Popen(
        [sys.executable, "-m", *arguments, "--port", str(port), "config.asgi:application"],
        cwd=ROOT,
        env=environment_for_children(CREDENCE_LOG_LEVEL="CRITICAL", **_LEASES),
    ) as process:
        yield port, process.pid
        process.terminate()


def drain() -> subprocess.Popen[bytes]:
    """Serve the lane once, in a process of its own."""
    environment = environment_for_children(CREDENCE_LOG_LEVEL="CRITICAL", **_LEASES)
    return subprocess.Popen([sys.executable, "-c", _DRAIN], cwd=ROOT, env=environment)


def is_up(client: Client) -> bool:
    try:
        return client.request("GET", "/healthz")[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def test_web_and_worker_killed_in_their_calls_no_turn_is_lost_or_doubled(
    provider: Provider, web: tuple[int, int]
) -> None:
    tenant = make_tenant()
    agent = make_agent(
        tenant,
        provider=fake_provider(tenant, provider.server),
        model="fake-1",
        system_prompt=SYSTEM_PROMPT,
        language="en",
        policy={"summary_after_messages": 4, "recent_turns": 0},
    )
    client = Client(port=web[0], key=make_key(tenant).secret, agent_id=agent.id)
    wait_until(lambda: is_up(client), what="the web is up")
    thread_id = client.run(question(1))["thread_id"]

    with provider.held(2) as held:
        call = client.call(question(2), thread_id=thread_id, key="key-2").begin()
        held.wait()
        kill(*children()[web[1]])
    wait_until(lambda: sweep(now=timezone.now()).runs_interrupted, what="the lost run is ended")
    assert call.wait().status == 200

    with provider.held(3, is_summary=True) as held:
        client.run(question(3), thread_id=thread_id)
        first = drain()
        held.wait()
        kill(first.pid)
        first.wait()
    wait_until(lambda: drain().wait() == 0 and jobs_of(tenant.id)[0].status == "done", what="done")

    scope = scope_of(tenant).narrowed(thread_id=thread_id)
    with scoped_transaction(scope):
        runs = Run.objects.in_scope(scope).order_by("seq")
        ends = list(runs.values_list("seq", "status", "error_code", "message_count"))
        summary = ThreadSummary.objects.in_scope(scope).get()
    assert ends == [
        (1, "succeeded", None, 2),
        (2, "failed", "interrupted", 1),
        (3, "succeeded", None, 2),
        (4, "succeeded", None, 2),
    ]
    assert (summary.summary_upto_seq, summary.covered_turns, summary.version) == (4, 4, 1)
    assert marks(summary.rolling_summary) == [1, 2, 2, 3]
    assert provider.summary_calls(3) == 2
