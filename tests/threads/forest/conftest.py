"""A lossless thread whose provider writes good nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from governance.policy import change_policy
from tests.factories import NOW, make_agent, make_tenant, scope_of
from tests.fakes.openai_server import FakeOpenAI
from tests.foresting import node_reply
from tests.talking import fake_provider, new_thread
from threads.models import Agent, Thread


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as running:
        running.answer_with(node_reply)
        yield running


def lossless_agent(server: FakeOpenAI, **policy: Any) -> Agent:
    """An agent of a new tenant with this policy; its own prompt must be in no call for memory."""
    tenant = make_tenant()
    change_policy(scope=scope_of(tenant), changes=policy, now=NOW)
    return make_agent(
        tenant,
        provider=fake_provider(tenant, server),
        model="fake-1",
        system_prompt="You are the agent AGENT-OWN-PROMPT.",
        thread_strategy="lossless",
    )


@pytest.fixture
def agent(db: None, server: FakeOpenAI) -> Agent:
    return lossless_agent(server, forest_base_tokens=200)


@pytest.fixture
def thread(agent: Agent) -> Thread:
    return new_thread(agent)


@pytest.fixture
def live(committed_db: None, server: FakeOpenAI) -> Thread:
    """A thread that several connections see."""
    return new_thread(lossless_agent(server, forest_base_tokens=200, forest_consolidation_k=2))
