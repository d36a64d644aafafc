"""The prompt of one run and its account: what was wanted, what got in, what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import SystemRandom
from typing import Any

from governance.policy_rules import Policy
from governance.secrets import strip_secrets
from memory.assembly import (
    HandedItem,
    PackedSection,
    build_messages,
    pack_handed,
    prompt_tokens,
)
from memory.boundary import Wording, new_tag, wording_for
from memory.language import resolve
from memory.ledger import Ledger, SectionRow, target_budget
from memory.providers.base import ChatMessage
from memory.scope import Scope
from memory.tokens import estimate
from threads.history import ThreadSection, ThreadView, thread_section
from threads.models import Agent

_RANDOM = SystemRandom()
_ANNOUNCEMENT_TOKENS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedFact:
    """A fact handed in: a value from a database step, with the time it was true."""

    label: str
    value: str
    as_of: datetime | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedMaterial:
    """Material handed in: something to read, not something that is so."""

    title: str
    content: str
    source: str | None = None
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What a client asks; `continues_run_id` names the run whose artefacts it goes on with."""

    input: str
    user_id: str
    thread_id: str | None = None
    facts: tuple[HandedFact, ...] = ()
    materials: tuple[HandedMaterial, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    continues_run_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptInput:
    """Everything one prompt is made from; `scope` names the thread's session."""

    scope: Scope
    agent: Agent
    policy: Policy
    view: ThreadView
    request: RunRequest
    question: str
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """A prompt, its ledger, and its items as API.md shows them (without the question)."""

    ledger: Ledger
    messages: tuple[ChatMessage, ...]
    items: Sequence[Mapping[str, Any]]

    def messages_as_json(self) -> list[dict[str, str]]:
        """Return the messages as they are stored and shown."""
        return [{"role": message.role, "content": message.content} for message in self.messages]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The packed sections of one prompt, and what bounds them, in tokens.

    Attributes:
        target: What the prompt may cost.
        bare: The irreducible part: system prompt and question.
        announcement: The words between the sections and the request, where there is a section.
    """

    target: int
    bare: int
    announcement: int
    facts: PackedSection
    history: ThreadSection
    history_cap: int
    materials: PackedSection


def assemble(given: PromptInput) -> Assembled:
    """Spend the budget by priority (facts, thread, reference) and account for it.

    When even the bare prompt (system prompt and question) is over the target, nothing is assembled
    and the ledger's decision is `reject`. Cost: the thread section's one or two queries.
    """
    wording = wording_for(resolve(given.agent.language, given.question))
    tag = new_tag(_RANDOM)
    parts = _pack_all(given, wording, tag)
    if parts.bare > parts.target:
        return Assembled(ledger=_account(given, parts, (), is_rejected=True), messages=(), items=())
    messages = build_messages(
        system_prompt=given.agent.system_prompt,
        wording=wording,
        tag=tag,
        sections=(parts.facts.text, parts.history.text, parts.materials.text),
        request=given.question,
    )
    ledger = _account(given, parts, messages, is_rejected=False)
    return Assembled(ledger=ledger, messages=messages, items=_items(given, parts))


def _pack_all(given: PromptInput, wording: Wording, tag: str) -> _Parts:
    agent, policy = given.agent, given.policy
    target = target_budget(
        context_window=agent.context_window, max_output_tokens=agent.max_output_tokens
    )
    bare = prompt_tokens(
        build_messages(
            system_prompt=agent.system_prompt,
            wording=wording,
            tag=tag,
            sections=(),
            request=given.question,
        )
    )
    announcement = estimate(wording.request_follows) + estimate(tag) + _ANNOUNCEMENT_TOKENS
    left = max(target - bare - announcement, 0)
    facts = pack_handed(
        name="facts",
        items=_facts(given),
        wording=wording,
        tag=tag,
        cap=min(policy.count("facts_tokens"), left),
    )
    left -= facts.row.granted
    history_cap = min(policy.count("thread_tokens"), left)
    history = thread_section(
        scope=given.scope,
        view=given.view,
        wording=wording,
        tag=tag,
        policy=policy,
        cap=history_cap,
    )
    left -= history.tokens
    materials = pack_handed(
        name="reference",
        items=_materials(given),
        wording=wording,
        tag=tag,
        cap=min(policy.count("reference_tokens"), left),
    )
    return _Parts(
        target=target,
        bare=bare,
        announcement=announcement,
        facts=facts,
        history=history,
        history_cap=history_cap,
        materials=materials,
    )


def _facts(given: PromptInput) -> list[HandedItem]:
    fresh = timedelta(days=given.policy.count("freshness_fact_days"))
    return [
        HandedItem(
            kind="fact",
            id=f"fact-{number}",
            label=strip_secrets(fact.label).text,
            text=strip_secrets(fact.value).text,
            source=strip_secrets(fact.source or "").text,
            as_of=fact.as_of,
            is_stale=fact.as_of is not None and given.now - fact.as_of > fresh,
        )
        for number, fact in enumerate(given.request.facts, start=1)
    ]


def _materials(given: PromptInput) -> list[HandedItem]:
    fresh = timedelta(days=given.policy.count("freshness_knowledge_days"))
    return [
        HandedItem(
            kind="material",
            id=f"material-{number}",
            label=strip_secrets(material.title).text,
            text=strip_secrets(material.content).text,
            source=strip_secrets(material.source or "").text,
            as_of=material.as_of,
            is_stale=material.as_of is not None and given.now - material.as_of > fresh,
        )
        for number, material in enumerate(given.request.materials, start=1)
    ]


def _account(
    given: PromptInput, parts: _Parts, messages: Sequence[ChatMessage], *, is_rejected: bool
) -> Ledger:
    history = parts.history
    thread_row = SectionRow(
        name="thread",
        cap=parts.history_cap,
        wanted=history.wanted,
        granted=0 if is_rejected else history.tokens,
        items=0 if is_rejected else history.items,
        dropped=history.dropped(),
    )
    asked = estimate(given.question)
    request_row = SectionRow(
        name="request",
        cap=parts.target,
        wanted=asked,
        granted=0 if is_rejected else asked,
        items=1,
    )
    candidates = [parts.facts.row, thread_row, parts.materials.row]
    rows = [row for row in candidates if row.wanted]
    is_cut = any(row.dropped for row in rows)
    decision = "reject" if is_rejected else ("trim" if is_cut else "pass")
    sent = 0 if is_rejected else prompt_tokens(messages)
    with_all = parts.bare + sum(row.wanted for row in rows) + (parts.announcement if rows else 0)
    return Ledger(
        decision=decision,
        # Estimated piece by piece, so a little apart from the whole: never below what is sent.
        current_tokens=max(with_all, sent),
        prompt_tokens=sent,
        target_budget=parts.target,
        context_window=given.agent.context_window,
        candidate_count=sum(row.candidates for row in rows),
        sections=(*rows, request_row),
    )


def _items(given: PromptInput, parts: _Parts) -> list[dict[str, Any]]:
    """Return what the prompt shows, each with where it came from and how far to trust it (D01)."""
    found: list[dict[str, Any]] = []
    for name, packed in (("facts", parts.facts), ("reference", parts.materials)):
        for item, tokens in packed.shown:
            found.append(_handed_json(given, name, item, tokens))
    found += _thread_items(given, parts.history)
    return found


def _handed_json(given: PromptInput, section: str, item: HandedItem, tokens: int) -> dict[str, Any]:
    source = {"kind": "request", "id": item.source or None, "external_id": None}
    return _item(section, item.kind, item.id, item.kind) | {
        "source": source,
        "created_at": given.now.isoformat(),
        "as_of": item.as_of.isoformat() if item.as_of else None,
        "stale": item.is_stale,
        "tokens": tokens,
        "content": f"{item.label}: {item.text}" if item.label else item.text,
    }


def _thread_items(given: PromptInput, history: ThreadSection) -> list[dict[str, Any]]:
    found = []
    if history.summary:
        source = {"kind": "thread", "id": given.scope.thread_id, "external_id": None}
        found.append(
            _item("thread", "summary", given.scope.thread_id or "", "derived")
            | {
                "source": source,
                "tokens": estimate(history.summary),
                "content": history.summary,
            }
        )
    for head in history.shown:
        source = {"kind": "run", "id": head.run_id, "external_id": head.external_id}
        found.append(
            _item("thread", "turn", head.run_id, "observed")
            | {
                "source": source,
                "created_at": head.created_at.isoformat(),
                "tokens": head.tokens,
            }
        )
    return found


def _item(section: str, kind: str, item_id: str, tier: str) -> dict[str, Any]:
    """Return an Item of API.md with nothing but its name; callers fill in what they know."""
    return {
        "section": section,
        "kind": kind,
        "id": item_id,
        "tier": tier,
        "source": None,
        "created_at": None,
        "approved_at": None,
        "as_of": None,
        "confidence": None,
        "weight": None,
        "stale": False,
        "tokens": 0,
        "score": None,
        "content": None,
    }
