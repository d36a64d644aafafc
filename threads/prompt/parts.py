"""The sections of a prompt besides the thread's past: who wants in, and packing them by priority."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from governance.policy_rules import RULES, Policy
from governance.secrets import strip_secrets
from memory.boundary import Wording, guidelines
from memory.sections import Candidate, PackedSection, pack_fixed, pack_section
from memory.trust import ContextItem, Source
from threads.request import HandedFact, HandedMaterial
from threads.tools.records import WorkspaceFile

# Filled before the thread's past, and after it; each by priority (DESIGN 4).
PREFERENCES: Final = "preferences"
BEFORE_PAST: Final = ("facts", "core")
AFTER_PAST: Final = ("continue", "reference", "related", "guidelines")
PROMPT_ORDER: Final = ("guidelines", "preferences", "facts", "core")
PROMPT_ORDER_AFTER: Final = ("related", "reference", "continue")
_GUIDELINES: Final = "guidelines"
_EXCERPT_CHARS: Final = 600
_FEW_FILES: Final = 2
_SUMMARY_TOOL: Final = "view_chat_history_summary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What wants into a prompt besides the past: items by section, and the guidelines' text."""

    wording: Wording
    tag: str
    policy: Policy
    by_section: Mapping[str, Sequence[Candidate]] = field(default_factory=dict)
    guidelines: str = ""
    role: str = ""

    def pack(self, name: str, *, room: int) -> PackedSection:
        """Return one section within its cap, its characters if it has a limit, and `room` tokens."""
        cap = max(min(self.policy.count(f"{name}_tokens"), room), 0)
        if name == _GUIDELINES:
            return pack_fixed(name=name, text=self.guidelines, item=_guideline(self), cap=cap)
        return pack_section(
            name=name,
            candidates=self.by_section.get(name, ()),
            wording=self.wording,
            tag=self.tag,
            cap=cap,
            most_chars=self.policy.count(chars) if (chars := f"{name}_chars") in RULES else None,
        )


def _guideline(candidates: Candidates) -> ContextItem:
    return ContextItem(
        section=_GUIDELINES,
        kind="guideline",
        id=_GUIDELINES,
        tier="system",
        source=Source(kind="agent"),
        content=candidates.guidelines,
    )


def guidelines_text(*, wording: Wording, role: str, tools: Sequence[str]) -> str:
    """Return the guidelines of a bootstrap turn for an agent's role and tools."""
    return guidelines(wording=wording, role=role, has_summary_tool=_SUMMARY_TOOL in tools)


def fact_candidates(
    *, facts: Sequence[HandedFact], policy: Policy, now: datetime
) -> list[Candidate]:
    """Return the facts handed in, free of secrets, each with its date and whether it is stale."""
    fresh = timedelta(days=policy.count("freshness_fact_days"))
    return [
        _handed(
            section="facts",
            kind="fact",
            number=number,
            label=fact.label,
            text=fact.value,
            source=fact.source,
            as_of=fact.as_of,
            dates=(now, fresh),
        )
        for number, fact in enumerate(facts, start=1)
    ]


def material_candidates(
    *, materials: Sequence[HandedMaterial], policy: Policy, now: datetime
) -> list[Candidate]:
    """Return the materials handed in, free of secrets; their middle may be left out."""
    fresh = timedelta(days=policy.count("freshness_knowledge_days"))
    return [
        _handed(
            section="reference",
            kind="material",
            number=number,
            label=material.title,
            text=material.content,
            source=material.source,
            as_of=material.as_of,
            dates=(now, fresh),
        )
        for number, material in enumerate(materials, start=1)
    ]


def _handed(
    *,
    section: str,
    kind: str,
    number: int,
    label: str,
    text: str,
    source: str | None,
    as_of: datetime | None,
    dates: tuple[datetime, timedelta],
) -> Candidate:
    now, fresh = dates
    label, text = strip_secrets(label).text, strip_secrets(text).text
    item = ContextItem(
        section=section,
        kind=kind,
        id=f"{kind}-{number}",
        tier=kind,
        source=Source(kind="request", id=strip_secrets(source or "").text or None),
        created_at=now,
        as_of=as_of,
        stale=as_of is not None and now - as_of > fresh,
        content=f"{label}: {text}" if label else text,
    )
    return Candidate(item=item, label=label, text=text, may_cut=kind == "material")


def workspace_candidates(*, files: Sequence[WorkspaceFile], question: str) -> list[Candidate]:
    """Return the artefacts a run goes on with: name, id and size of each, how some begin.

    Those that the question names come first, then the newest; only those named, or all where there
    are few, show how they begin, so that the others are at least listed.
    """
    asked = question.casefold()
    named = [file for file in files if file.name.casefold() in asked]
    others = [file for file in reversed(files) if file not in named]
    shown = named or (others if len(files) <= _FEW_FILES else [])
    return [_workspace_candidate(file, is_excerpt=file in shown) for file in (*named, *others)]


def _workspace_candidate(file: WorkspaceFile, *, is_excerpt: bool) -> Candidate:
    excerpt = file.content[:_EXCERPT_CHARS] if is_excerpt else ""
    return Candidate(
        item=ContextItem(
            section="continue",
            kind="artifact",
            id=file.id,
            tier="derived",
            source=Source(kind="run", id=file.run_id),
            created_at=file.created_at,
            content=excerpt or file.name,
        ),
        label=f"{file.name} ({file.id}, {file.bytes} B)",
        text=excerpt,
        may_cut=is_excerpt,
    )
