"""Prompts for the tests of requirements: all that can be in one, said in two languages; no database."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from governance.policy_rules import effective
from memory.boundary import HistoryTurn, new_tag, wording_for
from memory.providers.base import ToolSpec
from memory.sections import Candidate
from memory.tokens import estimate
from memory.trust import ContextItem, Source
from threads.counting import Counter
from threads.history import ThreadView, TurnHead, turn_tokens
from threads.models import Agent
from threads.prompt.assembly import Assembled, assemble
from threads.prompt.given import PromptInput
from threads.request import HandedFact, HandedMaterial, RunRequest
from threads.rolling import RollingPast
from threads.turn_cutting import CutMarks

NOW = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
TAG = new_tag(random.Random(11))
SUMMARY_TOOL = ToolSpec(
    name="view_chat_history_summary",
    description="A merged summary and timeline of this user's conversations. 各会话的时间线。",
    parameters={"type": "object", "properties": {"limit": {"type": "integer"}}},
)


@dataclass(frozen=True)
class Words:
    """What the persons of these tests say, in one language."""

    language: Any
    question: str
    preference: str
    fact: tuple[str, str]
    core: str
    asked: str
    answered: str
    related: str
    material: tuple[str, str]
    summary: str
    facts_heading: str
    reference_heading: str
    stale: str


CHINESE = Words(
    language="zh",
    question="简答题换哪两道？",
    preference="回答用列表",
    fact=("库存", "十二件"),
    core="教高二数据结构",
    asked="把第三题改成红黑树",
    answered="第三题已改好",
    related="上学期的试卷考过哈希表",
    material=("考试大纲", "树与图的遍历"),
    summary="此前定了难度与截止日期",
    facts_heading="[已知事实",
    reference_heading="[参考资料",
    stale="可能已过期",
)
ENGLISH = Words(
    language="en",
    question="Which two short questions change?",
    preference="Answer in lists",
    fact=("stock", "twelve pieces"),
    core="Teaches data structures in grade eleven",
    asked="Make question three about red-black trees",
    answered="Question three is done",
    related="Last term's paper asked about hash tables",
    material=("Syllabus", "walking trees and graphs"),
    summary="Difficulty and deadline were settled before",
    facts_heading="[Facts",
    reference_heading="[Reference material",
    stale="may be out of date",
)


def remembered(section: str, text: str, *, number: int = 1, **values: Any) -> Candidate:
    """An item as a later retrieval brings it."""
    kinds = {"related": ("recall", "observed"), "reference": ("chunk", "material")}
    kind, tier = kinds.get(section, (section, "approved"))
    dates: dict[str, Any] = {"created_at": NOW - timedelta(days=3)}
    if tier == "approved":
        dates["approved_at"] = NOW - timedelta(days=2)
    item = ContextItem(
        section=section,
        kind=kind,
        id=f"{kind}-{number}",
        tier=tier,
        content=text,
        source=Source(kind="run", id="run_0"),
        **(dates | values),
    )
    return Candidate(item=item, label="", text=text, may_cut=section in kinds)


def everything(words: Words) -> dict[str, Any]:
    """One of each that can be remembered or handed in."""
    sections = ("preferences", "core", "related")
    texts = (words.preference, words.core, words.related)
    return {
        "turns": [(words.asked, words.answered)],
        "summary": words.summary,
        "remembered": {
            name: [remembered(name, text)] for name, text in zip(sections, texts, strict=True)
        },
        "facts": (HandedFact(label=words.fact[0], value=words.fact[1], as_of=NOW),),
        "materials": (HandedMaterial(title=words.material[0], content=words.material[1]),),
    }


def past_of(
    words: Words, turns: Sequence[tuple[str, str]], summary: str, policy: Any
) -> RollingPast:
    """A loaded past of these turns, a day apart, after a summary that is older."""
    heads = [
        TurnHead(
            run_id=f"run_{seq}",
            seq=seq,
            tokens=turn_tokens(input_text=asked, output_text=answered),
            message_count=2,
            created_at=NOW - timedelta(days=40 - seq),
        )
        for seq, (asked, answered) in enumerate(turns, start=1)
    ]
    said = [HistoryTurn(user_text=asked, assistant_text=answered) for asked, answered in turns]
    return RollingPast(
        thread_id="th_1",
        view=ThreadView(
            summary=summary,
            upto_seq=0,
            heads=tuple(heads),
            summary_at=NOW - timedelta(days=41) if summary else None,
        ),
        loaded=tuple(zip(heads, said, strict=True)),
        wording=wording_for(words.language),
        tag=TAG,
        policy=effective(policy or {}),
        marks_of=lambda ids: {one: CutMarks(question="…q…", answer="…a…") for one in ids},
    )


def prompt(
    words: Words,
    *,
    question: str | None = None,
    turns: Sequence[tuple[str, str]] = (),
    summary: str = "",
    window: int = 8192,
    system: str = "You help.",
    policy: Any = None,
    tools: tuple[ToolSpec, ...] = (),
    is_bootstrap: bool = False,
    role: str = "examiner",
    **given: Any,
) -> Assembled:
    """Assemble a prompt of the strategy rolling; what is not named is not there."""
    agent = Agent(
        system_prompt=system, context_window=window, max_output_tokens=256, model="gpt-4o",
        language=words.language, role=role,
    )  # fmt: skip
    past = past_of(words, turns, summary, policy)
    asked = question if question is not None else words.question
    kept = {name: given.pop(name) for name in ("remembered", "workspace") if name in given}
    return assemble(
        PromptInput(
            agent=agent,
            policy=past.policy,
            wording=past.wording,
            tag=TAG,
            past=past,
            counter=Counter.new("gpt-4o"),
            request=RunRequest(input=asked, user_id="u", **given),
            question=asked,
            now=NOW,
            is_bootstrap=is_bootstrap,
            tools=tools,
            **kept,
        )
    )


def last(built: Assembled) -> str:
    return built.messages[-1].content


def rows_of(built: Assembled) -> dict[str, Any]:
    return {row.name: row for row in built.ledger.sections}


def real_tokens(built: Assembled, *more: str) -> int:
    texts = [message.content for message in built.messages]
    return sum(estimate(text, kind="tokenizer", model="gpt-4o") for text in (*texts, *more))


def part(content: str, heading: str) -> str:
    """What stands between a section's opening line and the tag that closes it."""
    return content.partition(heading)[2].partition(TAG)[2].partition(TAG)[0]
