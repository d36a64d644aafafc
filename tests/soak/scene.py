"""The soak's stage: an instance, a model, two tenants with their agents and persons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.instance import Instance
from tests.soak.client import Api
from tests.soak.findings import Findings
from tests.soak.model import SYSTEM_PROMPT, Model
from tests.soak.operator import Operator
from tests.soak.person import Person

PERSONS = ("zh1", "en1", "zh2", "en2")
# Short enough that work of a killed process is taken over while the soak looks on.
ENVIRONMENT = {
    "CREDENCE_RUN_LEASE_SECONDS": "30",
    "CREDENCE_JOB_LEASE_SECONDS": "25",
    "CREDENCE_JOB_TIMEOUT_SECONDS": "20",
    "CREDENCE_HEARTBEAT_SECONDS": "3",
    # What is looked for is lost work, not refused requests.
    "CREDENCE_KEY_REQUESTS_PER_MINUTE": "0",
    "CREDENCE_WRONG_KEYS_PER_MINUTE": "0",
}
_POLICY = {"summary_after_messages": 6, "recent_turns": 1}
_TOOLS = ["memory_search", "memory_grep", "memory_upsert"]


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """One tenant on the stage."""

    letter: str
    slug: str
    staff: Api
    operator: Operator
    persons: list[Person]


def offers(api: Api) -> dict[str, bool]:
    """What of the later parts of the API is there."""
    paths = api.send("GET", "/v1/openapi.json", what="GET openapi").body.get("paths", {})
    names = {
        path.split("{")[0] + path.rsplit("}", 1)[-1]: methods for path, methods in paths.items()
    }
    return {
        "export": "/v1/users//export" in names,
        "erasure": "delete" in paths.get("/v1/users/{user}", {}),
    }


def tenants(
    *,
    instance: Instance,
    model: Model,
    findings: Findings,
    seed: int,
    leave_rate: float,
    erases: Callable[[Person], bool],
) -> list[Tenant]:
    """Make agents and persons in the two demo tenants."""
    found = []
    for letter, demo in zip("ab", instance.demo["tenants"], strict=True):
        staff = Api(
            port=instance.port, key=demo["api_key"], tenant=letter, person=None, findings=findings
        )
        agents = _agents(staff, model.server.base_url, letter)
        offered = offers(staff)
        persons = [
            Person(
                api=Api(
                    port=instance.port,
                    key=demo["api_key"],
                    tenant=letter,
                    person=name,
                    findings=findings,
                ),
                name=name,
                language=name[:2],
                agents=agents,
                findings=findings,
                seed=seed + at + 100 * ord(letter),
                leave_rate=leave_rate,
                erases=erases if offered["erasure"] else lambda _person: False,
            )
            for at, name in enumerate(PERSONS)
        ]
        operator = Operator(
            api=staff,
            slug=demo["slug"],
            agent_id=agents["rolling"],
            instance=instance,
            findings=findings,
            persons=persons,
            offered=offered,
            seed=seed + ord(letter),
        )
        found.append(
            Tenant(
                letter=letter, slug=demo["slug"], staff=staff, operator=operator, persons=persons
            )
        )
    return found


def _agents(staff: Api, base_url: str, letter: str) -> dict[str, str]:
    values: dict[str, Any] = {"name": f"soak {letter}", "kind": "openai_compatible"}
    values |= {"base_url": base_url, "locality": "local", "vendor": "fake"}
    provider = staff.send("POST", "/v1/providers", values).body
    made = {}
    for strategy in ("rolling", "lossless"):
        agent = {
            "name": f"soak {strategy}",
            "provider_id": provider["id"],
            "model": f"soak-{letter}",
            "context_window": 8_000,
            "system_prompt": SYSTEM_PROMPT,
            "language": "auto",
            "thread_strategy": strategy,
            "tools": _TOOLS,
            "policy": _POLICY,
        }
        reply = staff.send("POST", "/v1/agents", agent)
        assert reply.is_good, reply.text
        made[strategy] = reply.body["id"]
    return made
