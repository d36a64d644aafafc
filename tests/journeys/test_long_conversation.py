"""A long conversation comes in, shrinks in both strategies, and not a byte of it is lost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from governance.policy import change_policy
from governance.policy_rules import effective
from memory.compression.turns import SummaryTurn
from memory.lanes import lane_of
from memory.models import Tenant
from memory.providers.base import ToolCall
from memory.rls import scoped_transaction
from memory.tokens.encodings import load_encoding
from tests.factories import NOW, MadeKey, make_agent, make_key, make_tenant, scope_of
from tests.fakes.openai_replies import Json, Reply, calls, text
from tests.fakes.openai_server import FakeOpenAI
from tests.foresting import leaves_below, node_reply, nodes_of, originals, wrong_with
from tests.journeys import long_texts
from tests.journeys.long_texts import mark
from tests.talking import fake_provider, last_of, prepare, session_of, stored_run, summary_of
from tests.threads.api.client import Api
from threads.events import Completed
from threads.forest import sources as forest_sources
from threads.imports import import_conversations
from threads.models import Agent, Thread
from threads.tasks import HANDLERS, work_lane
from threads.tools.box import ToolBox

USER = "teacher-7"
TOOLS = ["view_message", "view_chat_history_summary"]
QUESTION = "What did we agree on at the start? 最开始我们定了什么？"


@dataclass
class Scripted:
    """The model: writes summaries and nodes when asked to, opens one message, then answers."""

    opens: str = ""
    nodes_asked: list[str] = field(default_factory=list)
    runs_asked: list[Json] = field(default_factory=list)

    def __call__(self, body: Json) -> Reply:
        said = json.dumps(body["messages"], ensure_ascii=False)
        first = str(body["messages"][0]["content"])
        if first.startswith("Task: summarize"):
            if "open_items" in first:
                self.nodes_asked.append(said)
                return node_reply(body)
            return text("2026-03-02 Agreed on red-black trees. 待办：重开发票。")
        self.runs_asked.append(body)
        if body["messages"][-1]["role"] == "tool" or not self.opens:
            return text("Red-black trees, one hundred points.")
        return calls(("view_message", json.dumps({"message_id": self.opens})))


@dataclass
class Stage:
    """One tenant with an agent for each strategy, on one scripted server."""

    tenant: Tenant
    key: MadeKey
    agents: dict[str, Agent]
    model: Scripted

    def import_thread(self, strategy: str, count: int) -> Thread:
        """Import the conversation for the agent of one strategy."""
        agent, scope = self.agents[strategy], scope_of(self.tenant)
        report = import_conversations(
            scope=scope, agent=agent, lines=long_texts.lines(count, user_id=USER), now=NOW
        )
        assert (report.turns_new, report.bad_lines) == (count // 2, [])
        with scoped_transaction(scope):
            return Thread.objects.in_scope(scope).get(agent=agent)

    def work(self) -> int:
        """Work off the tenant's jobs as the worker does."""
        done = 0
        while (report := work_lane(lane=lane_of(self.tenant.pk), handlers=HANDLERS)).done:
            assert report.failed == report.lost == 0
            done += report.done
        return done


@pytest.fixture
def stage(committed_db: None, settings: Any, tmp_path: Path) -> Iterator[Stage]:
    settings.STATIC_ROOT = tmp_path
    settings.WHITENOISE_USE_FINDERS = False
    with FakeOpenAI() as server:
        model = Scripted()
        server.answer_with(model)
        tenant = make_tenant()
        provider = fake_provider(tenant, server)
        agents = {
            strategy: make_agent(
                tenant,
                provider=provider,
                model="fake-1",
                context_window=8_192,
                max_output_tokens=512,
                thread_strategy=strategy,
                tools=TOOLS,
                system_prompt="You help a teacher. 你是老师的助手。",
            )
            for strategy in ("rolling", "lossless")
        }
        yield Stage(tenant, make_key(tenant), agents, model)


@pytest.fixture
def read_texts(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """How often the texts of each turn were read to build the forest."""
    seen: dict[int, int] = {}
    load = forest_sources.load_texts

    def counting(*, rows: Any) -> list[SummaryTurn]:
        turns = load(rows=rows)
        for turn in turns:
            seen[turn.seq] = seen.get(turn.seq, 0) + 1
        return turns

    monkeypatch.setattr(forest_sources, "load_texts", counting)
    return seen


def real_tokens(body: Json) -> int:
    """What a request costs by the real tokenizer, framing and tools included."""
    encoding = load_encoding("o200k_base")
    texts = [str(message["content"]) for message in body["messages"]]
    schemas = [json.dumps(tool, ensure_ascii=False) for tool in body.get("tools", ())]
    counted = sum(len(encoding.encode_ordinary(one)) for one in (*texts, *schemas))
    return counted + 4 * len(texts) + 3


def assert_balances(context: Mapping[str, Any]) -> None:
    """Every row: wanted is granted and dropped; all of it is within what was sent."""
    rows = context["sections"]
    for row in rows:
        assert row["wanted"] == row["granted"] + sum(gone["tokens"] for gone in row["dropped"])
    granted = sum(row["granted"] for row in rows)
    assert granted <= context["prompt_tokens"] <= context["target_budget"] == 6_553
    assert context["prompt_tokens"] <= context["current_tokens"]


def ask(stage: Stage, strategy: str, thread: Thread, count: int) -> None:
    """A run answers, having opened the first message; its prompt holds what it must."""
    said = originals(thread)
    first_id, *_ = said[1][0]
    stage.model.opens, stage.model.runs_asked = first_id, []
    prepared = prepare(stage.key, stage.agents[strategy], QUESTION, thread.pk, USER)
    assert isinstance(last_of(prepared), Completed)
    assert stored_run(prepared).output == "Red-black trees, one hundred points."
    before, after = stage.model.runs_asked
    for body in (before, after):
        assert real_tokens(body) <= prepared.context["target_budget"]
        sent = "\n".join(str(message["content"]) for message in body["messages"])
        assert all(mark(number) in sent for number in range(count - 3, count + 1))
        assert QUESTION in sent
    assert mark(2) not in json.dumps(before["messages"]) or strategy == "lossless"
    opened = after["messages"][-1]
    assert opened["role"] == "tool"
    assert long_texts.text(1) in opened["content"]
    assert_balances(prepared.context)
    assert prepared.context["decision"] in {"pass", "trim"}


def assert_lineage_gives_everything(api: Api, thread: Thread, count: int) -> None:
    """From the summary down to the messages: head, nodes and tail make up the conversation."""
    shown = api.get(f"/v1/threads/{thread.pk}/summary").json()["nodes"]
    by_id = {node["id"]: node for node in shown}
    assert {node["level"] for node in shown} >= {0, 1, 2}

    def below(node: dict[str, Any]) -> list[str]:
        children = [by_id[child] for child in node["children"]] if node["level"] else []
        return [one for child in children for one in below(child)] or node["message_ids"]

    covered = {child for node in shown if node["level"] for child in node["children"]}
    roots = [node for node in shown if node["id"] not in covered]
    ids = [one for root in roots for one in below(root)]
    stored = [message for _, said in sorted(originals(thread).items()) for message in said]
    order = [message[0] for message in stored]
    start = order.index(ids[0])
    assert ids == order[start : start + len(ids)]
    assert len(ids) > count * 0.8
    for number, message_id in enumerate(order[:count], 1):
        answer = api.get(f"/v1/messages/{message_id}")
        assert answer.json()["content"] == long_texts.text(number)


def assert_tool_opens_everything(stage: Stage, thread: Thread, count: int) -> None:
    box = ToolBox(
        scope=session_of(thread),
        agent_id=stage.agents["lossless"].pk,
        role="default",
        language="zh",
        tools=TOOLS,
        policy=effective({}),
    )
    stored = [message for _, said in sorted(originals(thread).items()) for message in said]
    for number, (message_id, *_) in enumerate(stored[:count], 1):
        arguments = json.dumps({"message_id": message_id})
        call = ToolCall(id="call_1", name="view_message", arguments=arguments)
        head, _, body = box.call(call=call, now=timezone.now()).content.partition("\n")
        assert head.endswith("whole:")
        assert body == long_texts.text(number)


@pytest.mark.req("C05")
@pytest.mark.req("C07")
@pytest.mark.req("A11")
@pytest.mark.parametrize(
    ("count", "consolidation_k"),
    [(400, 2), pytest.param(2_000, 4, marks=[pytest.mark.slow, pytest.mark.timeout(600)])],
)
def test_long_conversation_shrinks_in_both_strategies_and_every_byte_comes_back_k4(
    stage: Stage, read_texts: dict[int, int], count: int, consolidation_k: int
) -> None:
    """Two windows of 8k over many times that: three levels of nodes, a rolled summary, all originals."""
    changes = {"forest_consolidation_k": consolidation_k}
    change_policy(scope=scope_of(stage.tenant), changes=changes, now=NOW)
    threads = {strategy: stage.import_thread(strategy, count) for strategy in stage.agents}
    assert stage.work() > 0
    lossless, rolling = threads["lossless"], threads["rolling"]

    assert wrong_with(lossless) == ()
    nodes = nodes_of(lossless)
    assert max(node.level for node in nodes) >= 2
    assert {node.method for node in nodes} == {"model"}
    leaves = [
        leaf for node in nodes if node.parent_id is None for leaf in leaves_below(nodes, node)
    ]
    assert len(leaves) == len(set(leaves)) == sum(node.level == 0 for node in nodes)
    assert set(read_texts.values()) == {1}
    asked = re.findall(r"MARK-\d{5}-KRAM", "\n".join(stage.model.nodes_asked))
    assert len(asked) == len(set(asked)) == 2 * len(read_texts) > count * 0.8

    assert summary_of(rolling).summary_upto_seq > count // 2 - 20
    for strategy, thread in threads.items():
        ask(stage, strategy, thread, count)
    assert_lineage_gives_everything(Api(stage.key), lossless, count)
    assert_tool_opens_everything(stage, lossless, count)
