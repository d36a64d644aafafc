"""`make run` as a newcomer has it: served demo, a thread that goes on after a restart."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.fakes.openai_replies import Hang
from tests.fakes.openai_server import FakeOpenAI
from tests.instance import Instance

pytestmark = pytest.mark.timeout(300)


def call(instance: Instance, path: str, key: str, body: Any = None) -> tuple[int, Any]:
    request = urllib.request.Request(
        instance.base_url + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status), json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.req("A24")
@pytest.mark.req("E01")
def test_demo_is_served_and_its_thread_goes_on_after_a_restart() -> None:
    with Instance() as instance, FakeOpenAI() as provider:
        chinese, english = instance.demo["tenants"]
        agent, key = english["agent_id"], english["api_key"]
        ask = {"user_id": "cust-77", "input": "My router ARX6 reboots every night at 02:00."}
        _, first = call(instance, f"/v1/agents/{agent}/run", key, ask)
        again = {**ask, "thread_id": first["thread_id"], "input": "When does my router reboot?"}
        _, second = call(instance, f"/v1/agents/{agent}/run", key, again)
        assert "02:00" in second["output"]
        assert call(instance, f"/v1/threads/{first['thread_id']}", chinese["api_key"])[0] == 404
        with pytest.raises(AssertionError, match="already served"):
            second_start(instance)
        lost = leave_a_run_hanging(instance, provider, key)
        instance.stop()
        instance.start()
        assert instance.demo["tenants"][1] == english
        _, third = call(instance, f"/v1/agents/{agent}/run", key, again)
        assert (third["seq"], third["thread_id"]) == (3, first["thread_id"])
        _, ended = call(instance, f"/v1/runs/{lost}", key)
        assert (ended["status"], ended["error_code"]) == ("failed", "interrupted")
        log = instance.log.read_text(encoding="utf-8")
        assert "reboots every night" not in log.replace(instance.base_url, "")


def second_start(instance: Instance) -> None:
    """Start another one on the same folder, which must refuse."""
    other = Instance()
    other.remove()
    other.var, other.log = instance.var, instance.var / "second.log"
    other.environment = other.environment | {"CREDENCE_VAR": str(instance.var)}
    other.start()


def leave_a_run_hanging(instance: Instance, provider: FakeOpenAI, key: str) -> str:
    """Have a run wait for its model when the instance is stopped; returns the run's id."""
    provider.script(Hang())
    values = {"kind": "openai_compatible", "base_url": provider.base_url, "locality": "local"}
    _, made = call(instance, "/v1/providers", key, {"name": "slow", **values})
    wanted = {"name": "slow", "provider_id": made["id"], "model": "m", "context_window": 8192}
    _, agent = call(instance, "/v1/agents", key, wanted)
    body = {"user_id": "cust-77", "input": "hang"}

    def ask() -> None:
        try:
            call(instance, f"/v1/agents/{agent['id']}/run", key, body)
        except OSError:
            return

    threading.Thread(target=ask, daemon=True).start()
    provider.wait_for_requests(1)
    _, threads = call(instance, f"/v1/agents/{agent['id']}/threads?user_id=cust-77", key)
    _, runs = call(instance, f"/v1/threads/{threads['results'][0]['id']}/runs", key)
    return str(runs["results"][0]["id"])
