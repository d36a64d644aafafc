"""How many short turns a second the worker indexes, without embeddings; and what recording costs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from memory.jobs import Claim
from memory.lanes import lane_of
from memory.scope import Scope
from tests.factories import make_agent, make_end_user
from tests.recalling import Talk, make_talk
from tests.talking import new_thread, tell
from threads.recall.indexing import index_recall
from threads.tasks import work_lane

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("ignore")]
DEMO = Path(__file__).parents[2] / "config" / "local" / "demo"


def nothing(*, scope: Scope, claim: Claim) -> None:
    """As of a tenant without an embedding model; summaries are measured elsewhere."""


HANDLERS = {"index_recall": index_recall, "embed": nothing, "roll_summary": nothing}


def short_turns(count: int) -> list[tuple[str, str]]:
    """Questions and answers of the demo in both languages, each cut to 120 characters."""
    said: list[str] = []
    for name in ("teacher_zh.jsonl", "support_en.jsonl"):
        lines = (DEMO / name).read_text(encoding="utf-8").splitlines()
        said += [json.loads(line)["content"][:120] for line in lines]
    return [
        (f"{number} {said[2 * number % len(said)]}", said[(2 * number + 1) % len(said)])
        for number in range(count)
    ]


@pytest.mark.parametrize(("threads", "turns"), [(1, 3000), (20, 150), (300, 1)])
def test_ingest(committed_db: None, capsys: Any, threads: int, turns: int) -> None:
    talk = make_talk()
    agent = make_agent(talk.tenant)
    talks = [
        Talk(talk.tenant, new_thread(agent, make_end_user(talk.tenant))) for _ in range(threads)
    ]
    pairs = short_turns(turns)
    started = time.perf_counter()
    for each in talks:
        tell(each.thread, pairs)
    recorded = time.perf_counter() - started
    started = time.perf_counter()
    report = work_lane(lane=lane_of(talk.tenant.pk), handlers=HANDLERS)
    indexed = time.perf_counter() - started
    count = threads * turns
    assert report.failed == 0, talk.failures()
    assert sum(len(each.entries()) for each in talks[:3]) == min(threads, 3) * turns
    with capsys.disabled():
        print(
            f"{threads} threads of {turns} turns: recorded {count / recorded:.0f} turns/s,"
            f" indexed {count / indexed:.0f} turns/s ({report.done} jobs in {indexed:.1f} s)"
        )
