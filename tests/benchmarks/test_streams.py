"""A thousand open streams in one process: connections, memory, and whether it still answers."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import psycopg
import pytest

from tests.benchmarks.load import Connection, hammer
from tests.benchmarks.stub import stub_agent, stub_provider
from tests.instance import Instance

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("ignore")]
STREAMS = 1000


def web_process(instance: Instance) -> int:
    """The granian process that serves: the child of the one `make run` started."""
    assert instance.process is not None
    for status in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = status.read_bytes().split(b"\0")
            parent = int((status.parent / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError):
            continue
        is_ours = str(instance.port).encode() in words and b"granian" in b" ".join(words)
        if is_ours and parent != instance.process.pid:
            return int(status.parent.name)
    raise AssertionError("no web process")


def resident_mb(pid: int) -> float:
    """The resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def connections_of_app(instance: Instance) -> int:
    """How many connections the web process holds."""
    url = json.loads((instance.var / "instance.json").read_text())["owner"]
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'credence-web-%'"
        ).fetchone()
    return int(row[0]) if row else 0


async def open_streams(instance: Instance, agent: str, key: str) -> tuple[list[str], dict]:
    started = 0
    all_started = asyncio.Event()
    seen: dict[str, float] = {}

    async def one(number: int) -> str:
        nonlocal started
        connection = Connection(instance.port)
        body = {"user_id": f"stream-{number}", "input": "Tell me about the firmware."}
        await connection.send("POST", f"/v1/agents/{agent}/run/stream", body, key)
        code, _ = await connection.status()
        assert code == 200, code
        last = ""
        text = b""
        async for chunk in connection.chunks():
            if not text:
                started += 1
                if started == STREAMS:
                    all_started.set()
            text += chunk
        for line in text.decode().splitlines():
            if line.startswith("event: "):
                last = line[7:]
        connection.close()
        return last

    async def look() -> None:
        began = time.perf_counter()
        await all_started.wait()
        seen["started_seconds"] = time.perf_counter() - began
        await asyncio.sleep(1)
        seen["rss_mb"] = resident_mb(web_process(instance))
        seen["connections"] = await asyncio.to_thread(connections_of_app, instance)
        sample = await hammer(
            port=instance.port,
            connections=4,
            requests=40,
            ask=lambda _: ("GET", "/healthz", None, ""),
        )
        seen["healthz_median_ms"] = sorted(sample.millis)[20]

    looking = asyncio.create_task(look())
    results = await asyncio.gather(*(one(number) for number in range(STREAMS)))
    await looking
    return list(results), seen


def test_thousand_open_streams(capsys):
    with stub_provider(delay_ms=45_000) as url, Instance() as instance:
        agent, key = stub_agent(instance, url)
        ends, seen = asyncio.run(open_streams(instance, agent, key))
        assert ends == ["completed"] * STREAMS
        with capsys.disabled():
            print(f"{STREAMS} streams: {seen}")
