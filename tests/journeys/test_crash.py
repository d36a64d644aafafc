"""kill -9 of every process at every point of a run and of a job: nothing is lost, nothing doubled.

Real processes, as `make run` starts them. A killed process is never helped: the test waits until
all is up again, then reads in the database what became of every turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.journeys.crash_points import JOB_POINTS, RUN_POINTS
from tests.journeys.crash_processes import is_alive, kill, wait_until
from tests.journeys.crash_provider import question
from tests.journeys.crash_scene import TURNS, Scene, marks, scene

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180), pytest.mark.req("A24")]

# A few seconds on a machine at rest; the children are killed after twelve.
MOST_STOP_SECONDS = 11.0
INTERRUPTED = ("failed", "interrupted")
SUCCEEDED = ("succeeded", None)
# How often the model may be asked for one summary when the job is killed at a point.
MOST_CALLS = {
    "before_claim": 1,
    "claimed": 1,
    "in_call": 2,
    "before_commit": 2,
    "committed": 1,
    "done_not_acknowledged": 1,
}
# What stands in the book for a client that sent no key and got no answer.
LEFT_BEHIND: dict[str, list[tuple[str, str | None]]] = {
    "before_accept": [],
    "accepted": [INTERRUPTED],
    "in_call": [INTERRUPTED],
    "before_commit": [INTERRUPTED],
}
Kill = Callable[[Scene], None]


@pytest.fixture(scope="module")
def shared_stage() -> Iterator[Scene]:
    """One instance for all tests of this module."""
    with scene() as made:
        yield made


@pytest.fixture
def stage(shared_stage: Scene) -> Scene:
    """The instance, whole and at rest, whatever the test before it left."""
    shared_stage.settle()
    return shared_stage


def kill_worker(stage: Scene) -> None:
    """The process that serves the lane, or would."""
    kill(stage.book.holder() or stage.processes.cluster()[1][0])


def kill_cluster(stage: Scene) -> None:
    kill(stage.processes.cluster_parent())


def kill_supervisor(stage: Scene) -> None:
    kill(stage.processes.supervisor())


def kill_database(stage: Scene) -> None:
    kill(stage.processes.postmaster())


JOB_KILLS = [(kill, point) for kill in (kill_worker, kill_database) for point in JOB_POINTS] + [
    (kill_cluster, "in_call"),
    (kill_cluster, "done_not_acknowledged"),
    (kill_supervisor, "before_claim"),
    (kill_supervisor, "before_commit"),
]


@pytest.mark.parametrize(("victim", "point"), JOB_KILLS)
def test_job_killed_at_point_folds_each_turn_once(stage: Scene, victim: Kill, point: str) -> None:
    """Cases 137, 145, 152 and bug A2."""
    stage.make_fresh()
    numbers, thread_id = stage.thread(TURNS - 1)
    numbers.append(next(stage.numbers))
    with JOB_POINTS[point](stage, thread_id, numbers[-1]):
        victim(stage)
    stage.settle()
    stage.up()
    summary = stage.book.summary(thread_id)
    assert (summary["upto"], summary["covered"], summary["version"]) == (TURNS, TURNS, 1)
    assert marks(summary["text"]) == numbers
    assert stage.job(thread_id) == "done"
    assert 1 <= stage.provider.summary_calls(numbers[-1]) <= MOST_CALLS[point]
    stage.new_turn(thread_id)


@pytest.mark.parametrize("part", [0, 1, 2], ids=["worker", "monitor", "pusher"])
def test_idle_part_of_cluster_killed_jobs_are_done_again(stage: Scene, part: int) -> None:
    """Case 136: the queue's library alone would stand still for ever."""
    stage.make_fresh()
    kill(stage.processes.cluster()[1][part])
    numbers, thread_id = stage.thread(TURNS)
    wait_until(lambda: stage.job(thread_id) == "done", what="the job is done", seconds=60)
    stage.settle()
    assert marks(stage.book.summary(thread_id)["text"]) == numbers


def test_worker_killed_with_eight_jobs_waiting_all_are_done_once(stage: Scene) -> None:
    """Bug A2: a hard kill left the waiting work pending for ever."""
    threads = [stage.thread(TURNS - 1) for _ in range(8)]
    lasts = [next(stage.numbers) for _ in threads]
    with JOB_POINTS["in_call"](stage, threads[0][1], lasts[0]):
        for (_, thread_id), number in zip(threads[1:], lasts[1:], strict=True):
            stage.client.run(question(number), thread_id=thread_id)
        kill(stage.processes.supervisor())
    stage.settle()
    for (numbers, thread_id), number in zip(threads, lasts, strict=True):
        summary = stage.book.summary(thread_id)
        assert (summary["version"], marks(summary["text"])) == (1, [*numbers, number])
        assert stage.job(thread_id) == "done"
    assert sum(map(stage.provider.summary_calls, lasts)) <= len(lasts) + 1


def test_queue_emptied_by_hand_job_is_done(stage: Scene) -> None:
    """Case 143."""
    numbers, thread_id = stage.thread(TURNS - 1)
    numbers.append(next(stage.numbers))
    with JOB_POINTS["before_claim"](stage, thread_id, numbers[-1]):
        kill(stage.processes.supervisor())
        stage.book.empty_queue()
    stage.settle()
    assert marks(stage.book.summary(thread_id)["text"]) == numbers


def test_second_server_of_a_lane_does_nothing_while_the_first_works(stage: Scene) -> None:
    """Case 137."""
    numbers, thread_id = stage.thread(TURNS - 1)
    numbers.append(next(stage.numbers))
    with stage.second_server() as serve, JOB_POINTS["in_call"](stage, thread_id, numbers[-1]):
        assert serve() == 0
        assert stage.job(thread_id) == "running"
        assert stage.provider.summary_calls(numbers[-1]) == 1
    stage.settle()
    assert marks(stage.book.summary(thread_id)["text"]) == numbers
    assert stage.provider.summary_calls(numbers[-1]) == 1


def kill_web(stage: Scene) -> None:
    kill(stage.processes.web())


def kill_web_parent(stage: Scene) -> None:
    orphan = stage.processes.web()
    kill(stage.processes.web_parent())
    wait_until(lambda: not is_alive(orphan), what="the orphan is gone")


RUN_KILLS = [(kill, point) for kill in (kill_web, kill_database) for point in RUN_POINTS] + [
    (kill_web_parent, "in_call"),
    (kill_web_parent, "committed"),
]


@pytest.mark.parametrize(("victim", "point"), RUN_KILLS)
def test_run_killed_at_point_client_with_key_is_answered_once(
    stage: Scene, victim: Kill, point: str
) -> None:
    """Case 145; the client tries again with its key until it is answered."""
    _, thread_id = stage.new_turn()
    number = next(stage.numbers)
    call = stage.client.call(question(number), thread_id=thread_id, key=f"key-{number}")
    with RUN_POINTS[point](stage, number, call.begin):
        victim(stage)
    assert call.wait().status == 200
    stage.settle()
    *lost, last = stage.book.runs(call.text)
    assert last == SUCCEEDED
    assert lost in ([], [INTERRUPTED])
    assert (call.answer["status"], call.answer["thread_id"]) == ("succeeded", thread_id)
    stage.new_turn()


@pytest.mark.parametrize("point", LEFT_BEHIND)
def test_run_killed_at_point_without_key_its_turn_is_kept_as_interrupted(
    stage: Scene, point: str
) -> None:
    _, thread_id = stage.new_turn()
    number = next(stage.numbers)
    call = stage.client.call(question(number), thread_id=thread_id)
    with RUN_POINTS[point](stage, number, call.begin):
        kill_web(stage)
    assert call.wait().status == 0
    stage.settle()
    assert stage.book.runs(call.text) == LEFT_BEHIND[point]
    later, _ = stage.new_turn(thread_id)
    is_remembered = f"item{number}" in stage.provider.prompts(later)[0]
    assert is_remembered == bool(LEFT_BEHIND[point])


def test_stream_web_killed_started_run_ends_as_interrupted(stage: Scene) -> None:
    number = next(stage.numbers)
    with stage.provider.held(number) as held:
        stream = stage.client.stream(question(number))
        assert stream.event()[0] == "started"
        held.wait()
        kill_web(stage)
        while (name := stream.event()[0]) == "context":
            pass
        stream.close()
    assert name == ""
    stage.settle()
    assert stage.book.runs(question(number)) == [INTERRUPTED]


def test_stream_client_leaves_run_is_cancelled_and_model_hears_it(stage: Scene) -> None:
    number = next(stage.numbers)
    with stage.provider.held(number) as held:
        stream = stage.client.stream(question(number))
        held.wait()
        request = stage.provider.server.requests[-1]
        stream.close()
        assert request.client_left.wait(15)
    stage.settle()
    assert stage.book.runs(question(number)) == [("cancelled", None)]


def test_run_client_leaves_run_completes(stage: Scene) -> None:
    number = next(stage.numbers)
    with stage.provider.held(number) as held:
        stage.client.ask_and_leave(question(number), once=held.wait)
    stage.settle()
    assert stage.book.runs(question(number)) == [SUCCEEDED]


def test_launcher_killed_takes_all_along_and_a_new_start_goes_on(stage: Scene) -> None:
    numbers, thread_id = stage.thread(1)
    lost = next(stage.numbers)
    everybody = stage.processes.everybody()
    with stage.provider.held(lost) as held:
        call = stage.client.call(question(lost), thread_id=thread_id).begin()
        held.wait()
        stage.instance.kill()
        wait_until(lambda: not any(map(is_alive, everybody)), what="all have ended")
    assert call.wait().status == 0
    stage.instance.start()
    stage.settle()
    assert stage.book.runs(question(lost)) == [INTERRUPTED]
    number, _ = stage.new_turn(thread_id)
    assert f"item{numbers[0]}" in stage.provider.prompts(number)[0]


def test_stop_with_open_streams_takes_seconds_and_leaves_no_process(stage: Scene) -> None:
    everybody = [*stage.processes.everybody(), stage.processes.postmaster()]
    numbers = [next(stage.numbers) for _ in range(5)]
    with ExitStack() as open_streams:
        for number in numbers:
            held = open_streams.enter_context(stage.provider.held(number))
            stream = stage.client.stream(question(number))
            open_streams.callback(stream.close)
            held.wait()
        started = time.monotonic()
        stage.instance.stop()
        seconds = time.monotonic() - started
    assert not any(map(is_alive, everybody))
    assert seconds < MOST_STOP_SECONDS
    stage.instance.start()
    stage.settle()
    for number in numbers:
        assert stage.book.runs(question(number)) in ([INTERRUPTED], [("cancelled", None)])
