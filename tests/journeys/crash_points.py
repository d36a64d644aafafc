"""The points of DESIGN at which a process is killed, each reached exactly and held.

A transaction is stopped by a lock that it needs next, the model call by the model. Every point is a
context manager: inside, the work stands there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from tests.journeys.crash_client import Call
from tests.journeys.crash_processes import wait_until
from tests.journeys.crash_provider import question
from tests.journeys.crash_scene import Scene

JobPoint = Callable[[Scene, str, int], AbstractContextManager[None]]
RunPoint = Callable[[Scene, int, Callable[[], Call]], AbstractContextManager[None]]
_ACK = 'DELETE FROM "django_q_ormq"'


@dataclass(frozen=True, kw_only=True)
class Lock:
    """A lock that stops `statement`."""

    table: str
    mode: str
    statement: str


@contextmanager
def job_before_claim(scene: Scene, thread_id: str, number: int) -> Iterator[None]:
    """The job is committed, its bell rings, nobody has claimed it."""
    with scene.book.locked("memory_lane", "ROWS"):
        scene.client.run(question(number), thread_id=thread_id)
        wait_until(lambda: scene.book.is_blocked("memory_lane"), what="the lane is asked for")
        assert scene.job(thread_id) == "ready"
        yield


@contextmanager
def job_claimed(scene: Scene, thread_id: str, number: int) -> Iterator[None]:
    """The job is claimed, nothing is read yet."""
    table = "threads_threadsummary"
    with scene.provider.held(number) as held:
        call = scene.client.call(question(number), thread_id=thread_id).begin()
        held.wait()
        with scene.book.locked(table, "ACCESS EXCLUSIVE"):
            held.release.set()
            assert call.wait().status == 200
            wait_until(
                lambda: scene.job(thread_id) == "running" and scene.book.is_blocked(table),
                what="the claimed job reads",
            )
            yield


@contextmanager
def job_in_call(scene: Scene, thread_id: str, number: int) -> Iterator[None]:
    """The model is writing the summary."""
    with scene.provider.held(number, is_summary=True) as held:
        scene.client.run(question(number), thread_id=thread_id)
        held.wait()
        yield


def _job_after_call(lock: Lock) -> JobPoint:
    @contextmanager
    def reach(scene: Scene, thread_id: str, number: int) -> Iterator[None]:
        with scene.provider.held(number, is_summary=True) as held:
            scene.client.run(question(number), thread_id=thread_id)
            held.wait()
            with scene.book.locked(lock.table, lock.mode):
                held.release.set()
                wait_until(
                    lambda: scene.book.is_blocked(lock.statement), what=f"{lock.statement} waits"
                )
                yield

    return reach


# SHARE lets the job's row be locked and refuses to change it: the summary is committed, the job not.
JOB_POINTS: dict[str, JobPoint] = {
    "before_claim": job_before_claim,
    "claimed": job_claimed,
    "in_call": job_in_call,
    "before_commit": _job_after_call(
        Lock(
            table="threads_threadsummary",
            mode="EXCLUSIVE",
            statement='INSERT INTO "threads_threadsummary"',
        )
    ),
    "committed": _job_after_call(
        Lock(table="memory_job", mode="SHARE", statement="UPDATE memory_job")
    ),
    "done_not_acknowledged": _job_after_call(
        Lock(table="django_q_ormq", mode="SHARE", statement=_ACK)
    ),
}


@contextmanager
def run_before_accept(scene: Scene, number: int, begin: Callable[[], Call]) -> Iterator[None]:
    """The request is being prepared, nothing of it is committed."""
    with scene.book.locked("threads_run", "EXCLUSIVE"):
        begin()
        wait_until(
            lambda: scene.book.is_blocked("INSERT INTO threads_run ("), what="the run is inserted"
        )
        yield


@contextmanager
def run_accepted(scene: Scene, number: int, begin: Callable[[], Call]) -> Iterator[None]:
    """The run is accepted, the model has not heard of it."""
    with scene.provider.deaf():
        begin()
        wait_until(lambda: scene.book.runs(question(number)), what="the run is accepted")
        yield


@contextmanager
def run_in_call(scene: Scene, number: int, begin: Callable[[], Call]) -> Iterator[None]:
    """The model is thinking."""
    with scene.provider.held(number) as held:
        begin()
        held.wait()
        yield


@contextmanager
def run_before_commit(scene: Scene, number: int, begin: Callable[[], Call]) -> Iterator[None]:
    """The model has answered, the answer is being stored."""
    with scene.provider.held(number) as held:
        begin()
        held.wait()
        with scene.book.locked("threads_message", "EXCLUSIVE"):
            held.release.set()
            wait_until(
                lambda: scene.book.is_blocked("WITH ended AS ("),
                what="the answer is inserted",
            )
            yield


@contextmanager
def run_committed(scene: Scene, number: int, begin: Callable[[], Call]) -> Iterator[None]:
    """The answer is stored, the client (who sent a key) has not got it."""
    with scene.provider.held(number) as held:
        begin()
        held.wait()
        with scene.book.locked("threads_idempotencyrecord", "EXCLUSIVE"):
            held.release.set()
            wait_until(
                lambda: scene.book.is_blocked("threads_idempotencyrecord"),
                what="the answer's record waits",
            )
            assert scene.book.runs(question(number)) == [("succeeded", None)]
            yield


RUN_POINTS: dict[str, RunPoint] = {
    "before_accept": run_before_accept,
    "accepted": run_accepted,
    "in_call": run_in_call,
    "before_commit": run_before_commit,
    "committed": run_committed,
}
