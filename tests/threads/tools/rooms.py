"""People, agents and threads for the tools' tests, and a box that one of them talks through."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from governance.policy_rules import effective
from memory.models import EndUser, Tenant
from memory.providers.base import ToolCall
from memory.rls import scoped_transaction
from tests.factories import (
    NOW,
    make_agent,
    make_end_user,
    make_run,
    make_tenant,
    make_thread,
    scope_of,
)
from threads.models import Agent, Message, Run, Thread
from threads.tools.box import ToolBox
from threads.tools.records import ToolOutcome
from threads.tools.specs import TOOLS


@dataclass
class Room:
    """A person's thread with an agent, seen from inside a run."""

    tenant: Tenant
    agent: Agent
    person: EndUser
    thread: Thread

    def box(self, **changes: Any) -> ToolBox:
        """The tools of a run in the thread, all of them unless told otherwise."""
        policy = effective({"long_tool_result_tokens": changes.pop("most_tokens", 1500)})
        values: dict[str, Any] = {
            "scope": scope_of(self.tenant, self.person, self.thread),
            "agent_id": self.agent.pk,
            "role": self.agent.role,
            "language": "zh",
            "tools": tuple(TOOLS),
            "policy": policy,
        } | changes
        return ToolBox(**values)

    def use(self, tool: str, *, box: ToolBox | None = None, **arguments: Any) -> ToolOutcome:
        """Call a tool once."""
        return use(box or self.box(), tool, **arguments)

    def say(self, *contents: str, **values: Any) -> list[Message]:
        """One finished turn with these messages, user and assistant by turns."""
        return say(self.thread, *contents, **values)


def use(box: ToolBox, tool: str, **arguments: Any) -> ToolOutcome:
    """Call a tool of a box."""
    return raw(box, tool, json.dumps(arguments))


def raw(box: ToolBox, tool: str, arguments: str) -> ToolOutcome:
    """Call a tool with arguments as a model wrote them."""
    return box.call(call=ToolCall(id="call_1", name=tool, arguments=arguments), now=NOW)


def say(
    thread: Thread,
    *contents: str,
    at: datetime = NOW,
    status: str = "succeeded",
    roles: tuple[str, ...] = (),
    **values: Any,
) -> list[Message]:
    """One turn of a thread with these messages."""
    roles = roles or tuple("user" if at % 2 == 0 else "assistant" for at in range(len(contents)))
    times: dict[str, Any] = {"created_at": at}
    times |= {"lease_until": NOW, "finished_at": None} if status == "running" else {}
    answer = contents[1] if len(contents) > 1 else ""
    run: Run = make_run(thread, status=status, input=contents[0], output=answer, **times)
    with scoped_transaction(scope_of(Tenant(id=thread.tenant_id))):
        return [
            Message.objects.create(
                tenant_id=thread.tenant_id,
                thread=thread,
                run=run,
                end_user_id=thread.end_user_id,
                position=position,
                role=role,
                content=content,
                created_at=at,
                **values,
            )
            for position, (role, content) in enumerate(zip(roles, contents, strict=True))
        ]


def make_room(tenant: Tenant | None = None, *, role: str = "tutor") -> Room:
    """A new person with a new agent of a role, in a new tenant if none is given."""
    tenant = tenant or make_tenant()
    agent, person = make_agent(tenant, role=role), make_end_user(tenant)
    return Room(tenant, agent, person, make_thread(agent, person))


def beside(room: Room, *, role: str | None = None, person: EndUser | None = None) -> Room:
    """Another thread of the person, or of another one, with another agent of a role."""
    agent = make_agent(room.tenant, role=role or room.agent.role)
    person = person or room.person
    return Room(room.tenant, agent, person, make_thread(agent, person))
