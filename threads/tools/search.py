"""memory_search: what is remembered by meaning and by keywords, and messages, best first.

What was said a moment ago is in no index but its messages; what an index has by meaning shares no
word with the question. Both are scored alike and stand in one order, each turn once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from governance.secrets import strip_secrets
from memory.retrieval.results import Hit, Retrieval
from memory.retrieval.words import words_of
from memory.tokens import estimate
from threads.recall.finding import QuestionVector, Wanted, find, settings_of
from threads.recall.messages import FoundMessages, MessageQuery, has_words, search_messages
from threads.recall.scoring import ScoredMessage, score_message
from threads.tools.arguments import Arguments
from threads.tools.reach import Stretch, stamp
from threads.tools.records import ToolPlace, ToolRefusedError, ToolResult

KINDS: Final = ("recall", "item", "core")
_NOTHING: Final = "Nothing relevant found. Other words may help, or memory_grep with exact ones."
_BY_WORDS: Final = " Searched by words alone for now."
# The widest excerpts with which all results have a place in one answer.
_WIDTHS: Final = (800, 400, 200, 120)
_USED_SHARE: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownHit:
    """One line of an answer: what stands before the excerpt, and the text that it is of."""

    id: str
    head: str
    score: float
    at: datetime
    text: str
    length: int

    def line(self, *, words: Sequence[str], width: int) -> str:
        """Return the line with an excerpt around the first of the words, or from the start."""
        lower = self.text.casefold()
        hit = min((at for word in words if (at := lower.find(word)) >= 0), default=0)
        piece = Stretch(piece=self.text, before=0, length=self.length, hit=hit)
        return f"- {self.id} {self.head}: {piece.excerpt(most=width)}"


def memory_search(
    place: ToolPlace, arguments: Arguments, asked: QuestionVector, now: datetime
) -> ToolResult:
    """Return the best of what is remembered and of the messages. Cost: as both searches.

    Raises:
        ToolRefusedError: The query has no words, and there is no model that needs none.
    """
    query, limit = asked_for(arguments), arguments.count("limit")
    if asked.vector is None and not has_words(query):
        raise ToolRefusedError("query has no words; memory_grep finds signs.")
    found = recalled(place, query, KINDS, asked, now, limit=limit)
    spoken = _messages(place, query, limit)
    hits = _merged(found, _scored(spoken, place, now), limit)
    candidates = spoken.candidate_count + sum(found.trace.candidates.values())
    if not hits:
        text = _NOTHING + (_BY_WORDS if found.trace.degraded else "")
        return ToolResult(
            text=text, summary="nothing relevant", candidates=candidates, retrieval=found.trace
        )
    matching = max(spoken.relevant_count + len(found.hits), len(hits))
    said = f"{len(hits)} of {matching} relevant"
    head = f"{said}, best first.{_BY_WORDS if found.trace.degraded else ''}"
    return ToolResult(
        text=answer(head, hits, query=query, most_tokens=place.most_tokens),
        summary=said,
        candidates=max(candidates, len(hits)),
        kept=len(hits),
        top_score=round(hits[0].score, 4),
        retrieval=found.trace,
    )


def asked_for(arguments: Arguments) -> str:
    """Return the query without secrets."""
    return strip_secrets(arguments.text("query")).text


def recalled(
    place: ToolPlace,
    query: str,
    kinds: tuple[str, ...],
    asked: QuestionVector,
    now: datetime,
    *,
    limit: int,
) -> Retrieval:
    """Return what is remembered of some kinds for a tool's query, in the agent's role."""
    name = "kb_search" if kinds == ("knowledge",) else "memory_search"
    wanted = Wanted(tool=name, text=query, kinds=kinds, limit=limit, role=place.role)
    return find(scope=place.scope, wanted=wanted, asked=asked, policy=place.policy, now=now)


def answer(head: str, hits: Sequence[ShownHit], *, query: str, most_tokens: int) -> str:
    """Return the head and a line a hit, with the widest excerpts that fit."""
    words = tuple(dict.fromkeys(words_of(query)))
    text = head
    for width in _WIDTHS:
        text = "\n".join([head, *(hit.line(words=words, width=width) for hit in hits)])
        if estimate(text) <= most_tokens * _USED_SHARE:
            break
    return text


def shown_hit(hit: Hit) -> ShownHit:
    """Return something remembered as a line shows it; of a document the title too."""
    title = f"“{hit.title}” " if hit.title else ""
    stale = ", may be out of date" if hit.stale else ""
    parts = f"score {hit.score:.2f}, relevance {hit.scores.relevance:.2f}"
    return ShownHit(
        id=hit.id,
        head=f"{title}{stamp(hit.said_at)} {hit.tier} ({parts}{stale})",
        score=hit.score,
        at=hit.said_at,
        text=hit.content,
        length=len(hit.content),
    )


def _messages(place: ToolPlace, query: str, limit: int) -> FoundMessages:
    least = place.policy.share("min_relevance")
    wanted = MessageQuery(text=query, limit=limit, role=place.role, min_relevance=least)
    return search_messages(scope=place.scope, query=wanted)


def _scored(spoken: FoundMessages, place: ToolPlace, now: datetime) -> list[ScoredMessage]:
    settings = settings_of(place.policy)
    return [score_message(hit=hit, settings=settings, now=now) for hit in spoken.hits]


def _merged(found: Retrieval, spoken: Sequence[ScoredMessage], limit: int) -> list[ShownHit]:
    """Return both in one order; of a turn that is recalled the messages are not shown again."""
    turns = {hit.source.id for hit in found.hits if hit.kind == "recall"}
    hits = [shown_hit(hit) for hit in found.hits]
    hits += (_shown_message(one) for one in spoken if one.hit.run_id not in turns)
    hits.sort(key=lambda hit: (hit.score, hit.at, hit.id), reverse=True)
    return hits[:limit]


def _shown_message(one: ScoredMessage) -> ShownHit:
    hit = one.hit
    parts = f"score {one.score:.2f}, {hit.relevance:.0%} of the query: {', '.join(hit.words)}"
    return ShownHit(
        id=hit.id,
        head=f"{hit.thread_id} {hit.role} {stamp(hit.created_at)} {one.tier} ({parts})",
        score=one.score,
        at=hit.created_at,
        text=hit.content,
        length=hit.length,
    )
