"""Hostile strings in every place a prompt has, and what may not be in what leaves for a provider."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.utils import timezone

from memory.boundary import Wording, guidelines, wording_for
from memory.models import Tenant
from memory.rls import scoped_transaction
from tests.factories import (
    make_agent,
    make_artifact,
    make_end_user,
    make_key,
    make_tenant,
    scope_of,
)
from tests.fakes.openai_replies import Json, Reply, calls, text
from tests.fakes.openai_server import FakeOpenAI
from tests.foresting import grow
from tests.memory.test_injection_corpus import HIDDEN, LIVE, seen
from tests.talking import fake_provider, last_of, new_thread, prepare, roll
from threads.events import Completed
from threads.models import Agent, Message, Run, RunOrigin, Thread
from threads.pipeline import PreparedRun
from threads.request import HandedFact, HandedMaterial
from threads.turns import RecordedMessage, RecordedTurn, record_turns

SYSTEM: Final = "You are the examiner of the school."
TOOLS: Final = ("memory_grep", "view_message", "view_chat_history_summary")
SMALL: Final = {
    "forest_base_turns": 1,
    "forest_base_tokens": 200,
    "forest_consolidation_k": 2,
    "forest_tail_turns": 1,
    "summary_after_messages": 4,
    "thread_tokens": 6000,
    "facts_tokens": 3000,
    "reference_tokens": 3000,
    "continue_tokens": 3000,
    "long_tool_result_tokens": 4000,
    "forest_node_tokens": 2000,
}
METADATA_KEY: Final = "metadata-canary"
_TURNS: Final = 7
_PLAIN: Final = {
    "zh": ("老师要一份四十道题的试卷，六月十二日交。" * 14, "好的，四十道题，六月十二日。" * 14),
    "en": ("The teacher wants forty questions by June 12. " * 20, "Yes, forty by June 12. " * 20),
}
_LATER: Final = {
    "zh": ("- 2026-06-12：老师要四十道题。", "讨论试卷并修改题目"),
    "en": ("- 2026-06-12: the teacher wants forty questions.", "Went over the paper"),
}


@dataclass(kw_only=True)
class Hostage:
    """A conversation with one hostile text in all of its places, and the request that follows.

    Attributes:
        request: What the user asks: it must leave as it is, byte for byte.
        prepared: The run, once it has ended.
    """

    server: FakeOpenAI
    agent: Agent
    thread: Thread
    wording: Wording
    request: str
    prepared: PreparedRun

    @property
    def asked(self) -> list[Any]:
        """The bodies of the requests that the run made, as they arrived."""
        bodies = [json.loads(request.raw) for request in self.server.requests]
        return [body for body in bodies if not is_memory_work(body)]

    @property
    def remembering(self) -> list[Any]:
        """The bodies of the requests that memory work made."""
        bodies = [json.loads(request.raw) for request in self.server.requests]
        return [body for body in bodies if is_memory_work(body)]


def is_memory_work(body: Json) -> bool:
    """Say whether a request asks for a summary or a node."""
    return str(body["messages"][0]["content"]).startswith("Task: summarize")


def take(server: FakeOpenAI, hostile: str, *, strategy: str, language: str) -> Hostage:
    """Put `hostile` into every place there is, and ask for a run that uses its tools twice."""
    tenant = make_tenant()
    agent = make_agent(
        tenant,
        provider=fake_provider(tenant, server),
        model="fake-1",
        system_prompt=SYSTEM,
        context_window=64_000,
        role=hostile[:64] or "x",
        language=language,
        thread_strategy=strategy,
        tools=list(TOOLS),
        policy=SMALL,
    )
    thread = new_thread(agent, make_end_user(tenant, "teacher-7"))
    with scoped_transaction(scope_of(tenant)):
        thread.title = hostile[:200]
        thread.save(update_fields=["title"])
    plain = _LATER[language]
    server.answer_with(lambda body: _reply(body, hostile, plain))
    runs = _record(thread, [_turn(hostile, language, number) for number in range(_TURNS)])
    if strategy == "lossless":
        grow(thread)
    else:
        roll(thread)
    make_artifact(runs[0], name=hostile[:200] or "x", content=f"{hostile}\n{hostile}")
    request = f"{hostile}\n最后的问题 last question {hostile}"
    prepared = prepare(
        make_key(tenant),
        agent,
        request,
        thread.pk,
        facts=(HandedFact(label=hostile, value=hostile, source=hostile, as_of=timezone.now()),),
        materials=(HandedMaterial(title=hostile, content=hostile, source=hostile),),
        metadata={f"{METADATA_KEY} {hostile}": f"{METADATA_KEY} {hostile}"},
        continues_run_id=runs[0].pk,
    )
    assert isinstance(last_of(prepared), Completed)
    wording = wording_for("zh" if language == "zh" else "en")
    return Hostage(
        server=server,
        agent=agent,
        thread=thread,
        wording=wording,
        request=request,
        prepared=prepared,
    )


def _turn(hostile: str, language: str, number: int) -> RecordedTurn:
    """A turn made elsewhere: question, a tool's answer under its name, answer."""
    question, answer = _PLAIN[language]
    said, answered = f"{hostile}\n{question} {number}", f"{hostile}\n{answer} {number}"
    messages = (
        RecordedMessage(role="user", content=said),
        RecordedMessage(role="assistant", content="", tool_call_id=None),
        RecordedMessage(
            role="tool", content=f"{hostile}\n{number}", name=hostile[:200], tool_call_id="call_9"
        ),
        RecordedMessage(role="assistant", content=answered),
    )
    at = timezone.now() - timedelta(days=9 - number)
    return RecordedTurn(input=said, output=answered, messages=messages, created_at=at)


def _record(thread: Thread, turns: Sequence[RecordedTurn]) -> list[Run]:
    """Record turns together: that it may be done one by one is proved elsewhere."""
    scope = scope_of(Tenant(id=thread.tenant_id))
    with scoped_transaction(scope):
        return record_turns(
            scope=scope, thread=thread, turns=turns, origin=RunOrigin.API, now=timezone.now()
        )


def _reply(body: Json, hostile: str, plain: Sequence[str]) -> Reply:
    """Answer as a model that carries on whatever it read: into memory, into calls, into answers."""
    if is_memory_work(body):
        if "open_items" not in body["messages"][0]["content"]:
            return text(f"{plain[0]}\n{hostile}")
        entries = [{"date": "2026-06-12", "text": said} for said in (plain[1], hostile)]
        lists = {"decisions": [hostile], "open_items": [hostile], "pitfalls": [], "files": []}
        return text(json.dumps({**lists, "timeline": entries}, ensure_ascii=False))
    rounds = sum(message["role"] == "tool" for message in body["messages"])
    if not rounds:
        grep = json.dumps({"query": "*0*", "limit": 5}, ensure_ascii=False)
        return calls(
            ("memory_grep", grep), ("view_chat_history_summary", "{}"), said=f"{hostile}\nok"
        )
    if rounds == 2:
        view = json.dumps({"message_id": hostile, "offset": 0}, ensure_ascii=False)
        return calls(("view_message", view), (hostile[:100] or "x", hostile), said=hostile)
    return text(f"{hostile}\ndone")


def texts_of(body: Json) -> list[str]:
    """Every text of a request, what its calls say included."""
    found: list[str] = []
    for message in body["messages"]:
        found.append(message.get("content") or "")
        for call in message.get("tool_calls", ()):
            found += [
                call["id"],
                call["function"]["name"],
                *_strings(call["function"]["arguments"]),
            ]
        found.append(message.get("tool_call_id", ""))
    return [one for one in found if one]


def _strings(arguments: str) -> Iterator[str]:
    try:
        value = json.loads(arguments)
    except ValueError:
        yield arguments
        return
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting += [*one, *one.values()]
        elif isinstance(one, list):
            waiting += one


def remembered(hostage: Hostage, body: Json) -> list[str]:
    """Every text of a request but the user's own words, without the lines that are Credence's own."""
    ours, tag = own_lines(hostage.wording, hostage.agent.role), tag_of(hostage, body)
    shown = []
    for one in texts_of(body):
        kept = one.removesuffix(f"[Current Request]\n{hostage.request}")
        lines = (line for line in kept.split("\n") if tag not in line and line not in ours)
        shown.append("\n".join(lines))
    return shown


def tag_of(hostage: Hostage, body: Json) -> str:
    """The tag of a prompt's boundary, from the line that announces the request."""
    users = [one["content"] for one in body["messages"] if one["role"] == "user"]
    before = users[-1].removesuffix(f"\n[Current Request]\n{hostage.request}")
    announced = f"[{hostage.wording.request_follows}] "
    line = before.rsplit("\n", 1)[-1]
    tag = str(line.removeprefix(announced))
    assert line == f"{announced}{tag}"
    assert re.fullmatch(r"#[0-9a-f]{10}(?:[0-9a-f]{10})?", tag)
    return tag


def own_lines(wording: Wording, role: str) -> set[str]:
    """Lines of the frame that carry no tag."""
    told = guidelines(wording=wording, role=role, has_summary_tool=True)
    return {*told.split("\n"), wording.recent_heading, wording.acknowledged}


def faults(hostage: Hostage) -> list[str]:
    """Say what is wrong with the requests of a run; nothing, if all is well."""
    found: list[str] = []
    for number, body in enumerate(hostage.asked):
        systems = [one["content"] for one in body["messages"] if one["role"] == "system"]
        users = [one["content"] for one in body["messages"] if one["role"] == "user"]
        if systems != [SYSTEM]:
            found.append(f"{number}: system message")
        if not users[-1].endswith(f"\n[Current Request]\n{hostage.request}"):
            found.append(f"{number}: request")
        if METADATA_KEY in json.dumps(body):
            found.append(f"{number}: metadata")
        found += [f"{number}: {what}" for what in _frame_faults(hostage, body)]
        whole = "\n".join(texts_of(body)).replace(hostage.request, "")
        for line in (hostage.wording.recent_heading, hostage.wording.acknowledged):
            if whole.count(line) > 1:
                found.append(f"{number}: {line} stands {whole.count(line)} times")
        for one in remembered(hostage, body):
            found += [f"{number}: {what}: {one[:200]!r}" for what in live(one)]
    return found


def live(one: str) -> list[str]:
    """Name what a model could take for more than data in a text without its frame."""
    shown = seen(one)
    return [
        *(name for name, pattern in LIVE.items() if pattern.search(shown)),
        *(["hidden character"] if HIDDEN.search(one) else []),
        *(["request heading"] if "[current request]" in shown.lower() else []),
    ]


def _frame_faults(hostage: Hostage, body: Json) -> Iterator[str]:
    """Check that each tag stands in a line of the frame and each section closes once."""
    wording, tag = hostage.wording, tag_of(hostage, body)
    lines = [
        line
        for one in texts_of(body)
        for line in one.removesuffix(hostage.request).split("\n")
        if tag in line
    ]
    opening = re.compile(rf"\[(.+?){re.escape(wording.opening)}\] {tag}")
    sections = [match[1] for line in lines if (match := opening.fullmatch(line))]
    closing = [wording.close_line(section=section, tag=tag) for section in sections]
    yield from (
        f"section {section} closes {lines.count(closed)} times"
        for section, closed in zip(sections, closing, strict=True)
        if lines.count(closed) != 1
    )
    if len(set(sections)) != len(sections) or wording.history not in sections:
        yield f"sections {sections}"
    said = (wording.message_user, wording.message_assistant, wording.message_tool)
    labels = "|".join((*said, wording.message_summary))
    begun = [line for line in lines if re.fullmatch(rf"\[(?:{labels})[\d -]*\] {tag}", line)]
    ended = lines.count(f"[{wording.message_end}] {tag}")
    if len(begun) != ended:
        yield f"{len(begun)} messages begin, {ended} end"
    if len(lines) != 2 * len(sections) + 2 * ended + 1:
        yield f"{len(lines)} lines with the tag, {len(sections)} sections, {ended} messages"
    results = [one["content"] for one in body["messages"] if one["role"] == "tool"]
    for result in results:
        first, last = result.split("\n")[0], result.split("\n")[-1]
        if first not in begun or last != f"[{wording.message_end}] {tag}":
            yield "a tool's result stands outside of the boundary"


def messages_stored(thread: Thread) -> list[Message]:
    """Every stored message of a thread, by run and place."""
    scope = scope_of(Tenant(id=thread.tenant_id))
    with scoped_transaction(scope):
        rows = Message.objects.in_scope(scope).filter(thread_id=thread.pk)
        return list(rows.order_by("run__seq", "position"))
