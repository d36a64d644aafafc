"""Which way of serving costs least: the measurement behind ADR 0003."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from functools import partial

import pytest

from tests.benchmarks.load import Connection, hammer
from tests.instance import ROOT, Instance, free_port

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("ignore")]
WAYS = (("wsgi", "wsgi"), ("asginl", "asgi"), ("asginl", "pooled"))
PATHS = ("/healthz", "/v1/nowhere")


def serve(
    interface: str, app: str, port: int, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "granian", "--interface", interface, "--host", "127.0.0.1"]
        + ["--port", str(port), "--log-level", "warning", "--no-ws", "--http", "1"]
        + (["--blocking-threads", "8"] if interface == "wsgi" else ["--loop", "asyncio"])
        + [f"tests.benchmarks.apps:{app}"],
        cwd=ROOT,
        env=environment,
    )


def request_of(path: str, _number: int) -> tuple[str, str, None, str]:
    return "GET", path, None, ""


def wait_for(port: int) -> None:
    async def look() -> None:
        for _ in range(200):
            try:
                await Connection(port).open()
            except OSError:
                await asyncio.sleep(0.1)
            else:
                return

    asyncio.run(look())
    time.sleep(1)


def test_ways_of_serving_one_page(capsys):
    with Instance() as instance:
        for path in PATHS:
            for interface, app in WAYS:
                port = free_port()
                process = serve(interface, app, port, instance.environment)
                try:
                    wait_for(port)
                    for connections in (1, 16):
                        ask = partial(request_of, path)
                        asyncio.run(
                            hammer(port=port, connections=connections, requests=50, ask=ask)
                        )
                        sample = asyncio.run(
                            hammer(port=port, connections=connections, requests=600, ask=ask)
                        )
                        assert len(sample.millis) == 600
                        with capsys.disabled():
                            print(f"{path} {app:7} x{connections:<3} {sample.line()}")
                finally:
                    process.terminate()
                    process.wait(15)
