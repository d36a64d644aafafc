"""kb_search: passages of the knowledge base, best first; material to read, not what is so."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from threads.recall.finding import QuestionVector
from threads.tools.arguments import Arguments
from threads.tools.records import ToolPlace, ToolResult
from threads.tools.search import answer, asked_for, recalled, shown_hit

_NOTHING: Final = "The knowledge base has nothing relevant. Other words may help."
_BY_WORDS: Final = " Searched by words alone for now."


def kb_search(
    place: ToolPlace, arguments: Arguments, asked: QuestionVector, now: datetime
) -> ToolResult:
    """Return the best passages with title, date, score and chunk id. Cost: as one search."""
    query, limit = asked_for(arguments), arguments.count("limit")
    found = recalled(place, query, ("knowledge",), asked, now, limit=limit)
    note = _BY_WORDS if found.trace.degraded else ""
    candidates = sum(found.trace.candidates.values())
    if not found.hits:
        return ToolResult(
            text=_NOTHING + note,
            summary="nothing relevant",
            candidates=candidates,
            retrieval=found.trace,
        )
    hits = [shown_hit(hit) for hit in found.hits]
    said = f"{len(hits)} passages"
    head = f"{said} of reference material, best first; material, not confirmed facts.{note}"
    return ToolResult(
        text=answer(head, hits, query=query, most_tokens=place.most_tokens),
        summary=said,
        candidates=max(candidates, len(hits)),
        kept=len(hits),
        top_score=found.trace.top_score,
        retrieval=found.trace,
    )
