"""Credence's own share of a run, with 10,000 runs in the tenant, and how many runs a second."""

from __future__ import annotations

import asyncio
import json
import os
from statistics import median

import pytest

from tests.benchmarks.load import hammer
from tests.benchmarks.stub import call, stub_agent, stub_provider
from tests.instance import Instance

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("ignore")]
DELAY_MS = 50
QUESTION = "Which firmware fixed the router that lost its connection every night at two?"


def history_file(instance: Instance, *, threads: int, turns: int) -> str:
    path = instance.var / "history.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for thread in range(threads):
            for turn in range(turns):
                shared = {"user_id": f"bench-{thread % 100}", "thread": f"t{thread}"}
                question = {"content": f"Question {turn} of thread {thread}: {QUESTION}"}
                answer = {"role": "assistant", "content": "Version 2.4.7 did, since May. " * 3}
                file.write(json.dumps(shared | question) + "\n")
                file.write(json.dumps(shared | answer) + "\n")
    return str(path)


def model_step_ms(instance: Instance, agent: str, key: str) -> float:
    """The median of what runs spent in the provider call, by their own traces."""
    spent = []
    for number in range(30):
        body = {"user_id": f"bench-{number}", "input": QUESTION}
        run = call(instance, "POST", f"/v1/agents/{agent}/run", key, body)
        steps = call(instance, "GET", f"/v1/runs/{run['id']}/trace", key)["steps"]
        spent += [step["ms"] for step in steps if step["kind"] == "model"]
    return float(median(spent))


@pytest.mark.parametrize("processes", ["1", "2"])
def test_own_share_and_rate_of_runs(capsys, processes):
    with stub_provider(delay_ms=DELAY_MS) as url, Instance(WEB_PROCESSES=processes) as instance:
        agent, key = stub_agent(instance, url)
        file = history_file(instance, threads=1000, turns=10)
        imported = instance.manage(
            "import_conversations", "--tenant", "demo-support", "--agent", agent, file, "--json"
        )
        assert json.loads(imported.stdout)["turns_new"] == 10_000

        def ask(number: int) -> tuple[str, str, object, str]:
            body = {"user_id": f"bench-{number % 100}", "input": f"{number}: {QUESTION}"}
            return "POST", f"/v1/agents/{agent}/run", body, key

        asyncio.run(hammer(port=instance.port, connections=4, requests=40, ask=ask))
        for connections in (1, 8, 32):
            requests = 200 if connections == 1 else 600
            sample = asyncio.run(
                hammer(port=instance.port, connections=connections, requests=requests, ask=ask)
            )
            assert sample.failures == 0
            own = sorted(sample.millis)[len(sample.millis) // 2] - DELAY_MS
            with capsys.disabled():
                if connections == 1:
                    step = model_step_ms(instance, agent, key)
                    print(f"model step {step:.1f} ms, the rest {own + DELAY_MS - step:.1f} ms")
                print(
                    f"web={processes} cores={os.cpu_count()} x{connections:<3} {sample.line()}"
                    f" own share (median - {DELAY_MS} ms) = {own:.1f} ms"
                )
