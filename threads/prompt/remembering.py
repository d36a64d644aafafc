"""Recall for one prompt: related history and reference material, in sections of their own.

What the prompt's own thread shows is not told twice: of this thread, only turns that the prompt does
not show verbatim are related history, such as those a short summary stands for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from memory.ids import new_id
from memory.retrieval.expansion import Expansion
from memory.retrieval.results import Hit, Retrieval, RetrievalTrace
from memory.rls import narrow_open_scope
from memory.sanitize import sanitize
from memory.scope import Scope
from memory.sections import Candidate
from memory.trust import ContextItem
from threads.places import Setting
from threads.prompt.given import PromptInput
from threads.recall.finding import QuestionVector, Wanted, find

# Turns of this thread that are looked at besides, since those that the prompt shows fall away.
_MOST_SHOWN: Final = 12
_OPENER: Final = "view_message"
_TOOL: Final = "run"
_KINDS: Final = ("recall", "knowledge")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """A prompt's input with what is remembered; `step` is the data of its trace, None if unasked."""

    given: PromptInput
    step: Mapping[str, Any] | None


def recall(
    *,
    given: PromptInput,
    setting: Setting,
    asked: QuestionVector,
    named: Expansion | None = None,
) -> Recalled:
    """Return the input with what is remembered for its question; reads, writes nothing.

    Inside the caller's transaction. Nothing that passes the gates means no section at all. Cost:
    one search (memory.retrieval.search) of recall and of knowledge, each with its own number.

    Raises:
        ScopeError: The scope spans several tenants.
    """
    limit = setting.policy.count("recall_top_k")
    if limit == 0:
        return Recalled(given=given, step=None)
    scope = _person_scope(setting)
    extra = _MOST_SHOWN if setting.thread_id else 0
    wanted = Wanted(
        tool=_TOOL,
        text=given.question,
        kinds=_KINDS,
        limit=2 * limit + extra,
        limit_by_kind={"recall": limit + extra, "knowledge": limit},
        role=given.agent.role,
        named=named,
    )
    try:
        found = find(scope=scope, wanted=wanted, asked=asked, policy=given.policy, now=given.now)
    finally:
        if scope is not setting.scope:
            narrow_open_scope(setting.scope)
    related, dropped = _not_shown(found, given, setting, limit)
    reference = [hit for hit in found.hits if hit.kind == "knowledge"]
    step = _step(found.trace, [*related, *reference], dropped, asked)
    has_ids = any(tool.name == _OPENER for tool in given.tools)
    candidates = {
        "related": [_candidate("related", hit, has_id=has_ids) for hit in related],
        "reference": [_candidate("reference", hit, has_id=has_ids) for hit in reference],
    }
    shown = {"kept": step["kept"], "degraded": step["degraded"]}
    remembered = {**given.remembered, **candidates}
    return Recalled(given=replace(given, remembered=remembered, retrieval=shown), step=step)


def _person_scope(setting: Setting) -> Scope:
    """Return the scope to search in; for somebody who is not known yet, that of nobody.

    A scope without a person would show the whole tenant; one of nobody shows what all share.
    """
    if setting.scope.user_id is not None:
        return setting.scope
    scope = setting.scope.narrowed(user_id=new_id("usr"))
    narrow_open_scope(scope)
    return scope


def _not_shown(
    found: Retrieval, given: PromptInput, setting: Setting, limit: int
) -> tuple[list[Hit], dict[str, int]]:
    """Return the recall entries without the turns that the prompt shows, and what fell away."""
    hits = [hit for hit in found.hits if hit.kind == "recall"]
    own = setting.thread_id and any(hit.thread_id == setting.thread_id for hit in hits)
    shown = _shown_runs(given) if own else frozenset()
    fresh = [hit for hit in hits if hit.source.id not in shown]
    kept = fresh[:limit]
    return kept, {"shown": len(hits) - len(fresh), "top_k": len(fresh) - len(kept)}


def _shown_runs(given: PromptInput) -> frozenset[str]:
    """Return the turns that the thread section shows verbatim, as its strategy has it."""
    packed = given.past.pack(cap=min(given.past.usual_cap(), given.limit))
    return frozenset(item.id for item in packed.items if item.kind == "turn")


def _candidate(section: str, hit: Hit, *, has_id: bool) -> Candidate:
    """Return a hit as an item: recall is dated, knowledge has its title too."""
    # Cleaned before it stands in a line of ours: a role's name at its head would no longer be one.
    text = sanitize(hit.content).text
    label = " ".join(part for part in (hit.title, hit.id if has_id else "") if part)
    item = ContextItem(
        section=section,
        kind=hit.kind,
        id=hit.id,
        tier=hit.tier,
        source=hit.source,
        created_at=hit.said_at,
        confidence=hit.confidence,
        score=round(hit.score, 4),
        stale=hit.stale,
        content=f"{hit.title}: {text}" if hit.title else text,
    )
    return Candidate(item=item, label=label, text=text, may_cut=True)


def _step(
    trace: RetrievalTrace, kept: Sequence[Hit], dropped: Mapping[str, int], asked: QuestionVector
) -> dict[str, Any]:
    """Return the trace of the search as a step, with what the prompt itself left out."""
    gates = {**trace.dropped, "shown": dropped["shown"]}
    gates["top_k"] = gates.get("top_k", 0) + dropped["top_k"]
    whole = replace(
        trace,
        stages_ms={**trace.stages_ms, "embed": asked.ms},
        kept=len(kept),
        dropped=gates,
        tokens=sum(hit.tokens for hit in kept),
        top_score=max((round(hit.score, 4) for hit in kept), default=None),
    )
    return whole.as_json() | {"by_kind": {kind: _figures(kept, kind) for kind in _KINDS}}


def _figures(kept: Sequence[Hit], kind: str) -> dict[str, Any]:
    scores = [round(hit.score, 4) for hit in kept if hit.kind == kind]
    return {"kept": len(scores), "top_score": max(scores, default=None)}
