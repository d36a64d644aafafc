"""A whole instance with short leases, its model, its client and its book."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from itertools import count

from tests.instance import ROOT, Instance
from tests.journeys.crash_book import Book
from tests.journeys.crash_client import Client
from tests.journeys.crash_processes import Processes, kill, wait_until
from tests.journeys.crash_provider import SYSTEM_PROMPT, Provider, question

# Long enough for a busy machine to be stopped at a point, short enough to wait for.
LEASES = {
    "CREDENCE_RUN_LEASE_SECONDS": "8",
    "CREDENCE_JOB_LEASE_SECONDS": "7",
    "CREDENCE_JOB_TIMEOUT_SECONDS": "6",
    "CREDENCE_HEARTBEAT_SECONDS": "1",
}
UP_AGAIN_SECONDS = 60.0
# The shortest history that is summarised: the third turn folds all three.
TURNS = 3
_SECOND_SERVER = """
import django, sys
django.setup()
from threads.tasks import drain
print("ready", flush=True)
sys.stdin.read()
drain(0)
"""
_POLICY = {"summary_after_messages": 4, "recent_turns": 0}


@dataclass(kw_only=True)
class Scene:
    """What a crash test works with."""

    instance: Instance
    provider: Provider
    book: Book
    processes: Processes
    client: Client
    numbers: Iterator[int] = field(default_factory=lambda: count(100))

    def up(self) -> None:
        """Wait until web and worker say that they are well, as a person would who does nothing."""
        self._wait_for("/readyz")
        self.processes.cluster()

    def settle(self) -> None:
        """Wait until all that was begun has ended and the web answers; then go through the book."""
        self._wait_for("/healthz")
        wait_until(lambda: not self.book.unsettled(), what="all runs and jobs ended", seconds=60)
        self.book.check()

    def _wait_for(self, path: str) -> None:
        def is_fine() -> bool:
            try:
                return self.client.request("GET", path)[0] == 200
            except (OSError, ValueError, HTTPException):
                return False

        try:
            wait_until(is_fine, what=f"{path} is 200", seconds=UP_AGAIN_SECONDS)
        except AssertionError as error:
            log = self.instance.log.read_text(encoding="utf-8", errors="replace")
            raise AssertionError(f"{error}\n{log[-4000:]}") from error

    def new_turn(self, thread_id: str | None = None) -> tuple[int, str]:
        """One run that succeeds; returns its item's number and its thread."""
        number = next(self.numbers)
        answer = self.client.run(question(number), thread_id=thread_id)
        return number, str(answer["thread_id"])

    def thread(self, turns: int) -> tuple[list[int], str]:
        """A new thread with some turns."""
        number, thread_id = self.new_turn()
        more = [self.new_turn(thread_id)[0] for _ in range(turns - 1)]
        return [number, *more], thread_id

    def job(self, thread_id: str) -> str | None:
        """The status of a thread's newest job."""
        status: str | None = self.book.one(
            "SELECT status FROM memory_job WHERE thread_id = %s ORDER BY id DESC LIMIT 1",
            thread_id,
        )
        return status

    @contextmanager
    def second_server(self) -> Iterator[Callable[[], int]]:
        """A process that knows the lane and serves it once when it is called; returns its exit code."""
        with subprocess.Popen(
            [sys.executable, "-c", _SECOND_SERVER],
            cwd=ROOT,
            env=self.instance.environment | {"DJANGO_SETTINGS_MODULE": "config.settings.local"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            stdin = process.stdin

            def serve() -> int:
                stdin.close()
                return process.wait(30)

            yield serve

    def make_fresh(self) -> None:
        """Have a memory cluster whose parts are those it began with, so that one knows which is which."""
        if not self.processes.is_cluster_fresh():
            kill(self.processes.cluster_parent())
            wait_until(self.processes.is_cluster_fresh, what="the cluster is new", seconds=60)


def marks(text: str) -> list[int]:
    """The numbers of the items that a text names, in its order."""
    return [int(number) for number in re.findall(r"item(\d+)", text)]


@contextmanager
def scene() -> Iterator[Scene]:
    """Start everything, and end it."""
    provider = Provider()
    with provider.server, Instance(**LEASES) as instance:
        yield Scene(
            instance=instance,
            provider=provider,
            book=Book(instance),
            processes=Processes(instance),
            client=_make_agent(instance, provider.server.base_url),
        )


def _make_agent(instance: Instance, base_url: str) -> Client:
    key = instance.demo["tenants"][1]["api_key"]
    admin = Client(port=instance.port, key=key, agent_id="")
    values = {"name": "crash", "kind": "openai_compatible", "base_url": base_url}
    status, provider = admin.request(
        "POST", "/v1/providers", values | {"locality": "local", "vendor": "fake"}
    )
    assert status == 201, provider
    agent = {
        "name": "crash",
        "provider_id": provider["id"],
        "model": "fake-1",
        "context_window": 16_000,
        "system_prompt": SYSTEM_PROMPT,
        "language": "en",
        "policy": _POLICY,
    }
    status, made = admin.request("POST", "/v1/agents", agent)
    assert status == 201, made
    return Client(port=instance.port, key=key, agent_id=made["id"])
