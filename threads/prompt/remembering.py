"""Recall for one prompt: related history and reference material, in sections of their own.

What the prompt's own thread shows is not told twice: of this thread, only turns that the prompt does
not show verbatim are related history, such as those a short summary stands for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from memory.ids import new_id
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """A prompt's input with what is remembered; `step` is the data of its trace, None if unasked."""

    given: PromptInput
    step: Mapping[str, Any] | None


def recall(*, given: PromptInput, setting: Setting, asked: QuestionVector) -> Recalled:
    """Return the input with what is remembered for its question; reads, writes nothing.

    Inside the caller's transaction. Nothing that passes the gates means no section at all. Cost:
    two searches (memory.retrieval.search), of recall and of knowledge.

    Raises:
        ScopeError: The scope spans several tenants.
    """
    limit = setting.policy.count("recall_top_k")
    if limit == 0:
        return Recalled(given=given, step=None)
    scope = _person_scope(setting)
    try:
        related = _related(scope, given, setting, asked, limit)
        reference = _found(scope, given, asked, ("knowledge",), limit)
    finally:
        if scope is not setting.scope:
            narrow_open_scope(setting.scope)
    step = _step(related, reference, asked)
    has_ids = any(tool.name == _OPENER for tool in given.tools)
    candidates = {
        "related": [_candidate("related", hit, has_id=has_ids) for hit in related.hits],
        "reference": [_candidate("reference", hit, has_id=has_ids) for hit in reference.hits],
    }
    shown = {"kept": step["kept"], "degraded": step["degraded"]}
    return Recalled(given=replace(given, remembered=candidates, retrieval=shown), step=step)


def _person_scope(setting: Setting) -> Scope:
    """Return the scope to search in; for somebody who is not known yet, that of nobody.

    A scope without a person would show the whole tenant; one of nobody shows what all share.
    """
    if setting.scope.user_id is not None:
        return setting.scope
    scope = setting.scope.narrowed(user_id=new_id("usr"))
    narrow_open_scope(scope)
    return scope


def _related(
    scope: Scope, given: PromptInput, setting: Setting, asked: QuestionVector, limit: int
) -> Retrieval:
    """Return recall entries without the turns that the prompt shows."""
    extra = _MOST_SHOWN if setting.thread_id else 0
    found = _found(scope, given, asked, ("recall",), limit + extra)
    own = any(hit.thread_id == setting.thread_id for hit in found.hits) and setting.thread_id
    shown = _shown_runs(given) if own else frozenset()
    fresh = [hit for hit in found.hits if hit.source.id not in shown]
    kept = tuple(fresh[:limit])
    dropped = dict(found.trace.dropped)
    dropped["shown"] = len(found.hits) - len(fresh)
    dropped["top_k"] = dropped.get("top_k", 0) + len(fresh) - len(kept)
    trace = replace(
        found.trace,
        kept=len(kept),
        dropped=dropped,
        tokens=sum(hit.tokens for hit in kept),
        top_score=round(kept[0].score, 4) if kept else None,
    )
    return replace(found, hits=kept, trace=trace)


def _shown_runs(given: PromptInput) -> frozenset[str]:
    """Return the turns that the thread section shows verbatim, as its strategy has it."""
    packed = given.past.pack(cap=min(given.past.usual_cap(), given.limit))
    return frozenset(item.id for item in packed.items if item.kind == "turn")


def _found(
    scope: Scope, given: PromptInput, asked: QuestionVector, kinds: tuple[str, ...], limit: int
) -> Retrieval:
    wanted = Wanted(
        tool=_TOOL, text=given.question, kinds=kinds, limit=limit, role=given.agent.role
    )
    return find(scope=scope, wanted=wanted, asked=asked, policy=given.policy, now=given.now)


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


def _step(related: Retrieval, reference: Retrieval, asked: QuestionVector) -> dict[str, Any]:
    """Return the trace of both searches as one step: their sums, and the figures of each."""
    traces = (related.trace, reference.trace)
    scores = [trace.top_score for trace in traces if trace.top_score is not None]
    whole = replace(
        related.trace,
        stages_ms=_sums([trace.stages_ms for trace in traces]) | {"embed": asked.ms},
        candidates=_sums([trace.candidates for trace in traces]),
        kept=sum(trace.kept for trace in traces),
        dropped=_sums([trace.dropped for trace in traces]),
        degraded=tuple(dict.fromkeys(code for trace in traces for code in trace.degraded)),
        top_score=max(scores, default=None),
        tokens=sum(trace.tokens for trace in traces),
    )
    return whole.as_json() | {
        "by_kind": {"recall": _figures(related.trace), "knowledge": _figures(reference.trace)}
    }


def _figures(trace: RetrievalTrace) -> dict[str, Any]:
    return {
        "candidates": dict(trace.candidates),
        "kept": trace.kept,
        "dropped": dict(trace.dropped),
        "top_score": trace.top_score,
    }


def _sums(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: round(sum(part.get(name, 0) for part in parts), 3) for name in names}
