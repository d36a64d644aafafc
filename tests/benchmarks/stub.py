"""The stub provider of the benchmarks: a process of its own with a fixed delay."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.instance import ROOT, Instance, free_port


@contextmanager
def stub_provider(*, delay_ms: int, between_ms: int = 0, tokens: int = 8) -> Iterator[str]:
    """Run the scripted server; yields its base URL."""
    port = free_port()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.fakes.openai_server", "--port", str(port)),
            *("--delay-ms", str(delay_ms), "--between-ms", str(between_ms)),
            *("--tokens", str(tokens)),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(10)


def call(instance: Instance, method: str, path: str, key: str, body: Any = None) -> Any:
    """One request to the instance; returns the answer's JSON."""
    request = urllib.request.Request(
        instance.base_url + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def stub_agent(instance: Instance, base_url: str) -> tuple[str, str]:
    """Make an agent of the English demo tenant that asks the stub; returns its id and a key."""
    key = instance.demo["tenants"][1]["api_key"]
    provider = call(
        instance,
        "POST",
        "/v1/providers",
        key,
        {
            "name": "stub",
            "kind": "openai_compatible",
            "base_url": base_url,
            "locality": "local",
            "vendor": "stub",
        },
    )
    agent = call(
        instance,
        "POST",
        "/v1/agents",
        key,
        {
            "name": "stub",
            "provider_id": provider["id"],
            "model": "stub",
            "context_window": 8192,
            "system_prompt": "You are a helpful assistant of a support desk.",
        },
    )
    return agent["id"], key
