"""memory_search: past messages by keywords, best first.

The database finds the newest messages that have one of the words; they are scored here, since its
full-text search takes a whole Chinese sentence for one word.
Source: BM25 as in Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.contrib.postgres.fields import ArrayField
from django.db.models import BooleanField, F, Func, Sum, TextField, Value
from django.db.models.functions import Least, Left, Length

from memory.querysets import ScopedQuerySet
from threads.models import Message, Thread
from threads.recall.messages import MOST_SEARCHED, MOST_SEARCHED_CHARACTERS
from threads.recall.patterns import like_escaped
from threads.recall.reach import searchable_messages
from threads.tools.arguments import Arguments
from threads.tools.reach import Stretch, stamp
from threads.tools.records import ToolPlace, ToolRefusedError, ToolResult
from threads.tools.words import SearchedText, words_of

_MOST_READ_CHARACTERS: Final = 3_000_000
_SATURATION: Final = 1.2
_LENGTH_SHARE: Final = 0.3
# Less of the query than this, by the weight of its words, is chance.
_LEAST_COVERAGE: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A message that has one of the words, with how often it has each."""

    id: str
    thread_id: str
    role: str
    created_at: datetime
    head: str
    length: int
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scored:
    """A candidate with its score and the share of the query's weight that it has."""

    candidate: _Candidate
    score: float
    coverage: float

    def line(self) -> str:
        found = self.candidate
        words = ", ".join(found.counts)
        parts = f"score {self.score:.2f}, {self.coverage:.0%} of the query: {words}"
        where = f"- {found.id} {found.thread_id} {found.role} {stamp(found.created_at)}"
        return f"{where} ({parts}): {_around_first(found)}"


def search(place: ToolPlace, arguments: Arguments) -> ToolResult:
    """Return the best messages for the words. Cost: two queries over the person's messages, one over the threads.

    Raises:
        ToolRefusedError: The query has no words.
    """
    words = words_of(arguments.text("query"))
    if not words:
        raise ToolRefusedError("query has no words; memory_grep finds signs.")
    rows = searchable_messages(scope=place.scope, role=place.role)
    candidates = _candidates(rows, words)
    scored = _scored(candidates, words, total=_total(place) if candidates else 0)
    best = scored[: arguments.count("limit")]
    if not best:
        text = "Nothing relevant found. Other words may help, or memory_grep with exact ones."
        return ToolResult(text=text, summary="nothing relevant", candidates=len(candidates))
    said = f"{len(best)} of {len(scored)} relevant messages"
    return ToolResult(
        text="\n".join([f"{said}, best first.", *(found.line() for found in best)]),
        summary=said,
        candidates=len(candidates),
        kept=len(best),
        top_score=round(best[0].score, 4),
    )


def _total(place: ToolPlace) -> int:
    """Return about how many messages there are, from the threads' counts: most turns have two."""
    threads = Thread.objects.in_scope(place.scope).filter(agent__role=place.role)
    return 2 * (threads.aggregate(turns=Sum("run_count"))["turns"] or 0)


def _candidates(rows: ScopedQuerySet[Message], words: Sequence[str]) -> list[_Candidate]:
    """Read the newest messages with one of the words, up to 3 million characters of them."""
    having = rows.filter(_like_any([f"%{like_escaped(word)}%" for word in words]))
    sized = having.annotate(size=Least(Length("content"), Value(MOST_SEARCHED_CHARACTERS)))
    newest = sized.order_by("-created_at", "-id").values_list("id", "size")[:MOST_SEARCHED]
    ids = _within(newest, _MOST_READ_CHARACTERS)
    texts = rows.filter(pk__in=ids).annotate(
        head=Left("content", MOST_SEARCHED_CHARACTERS), length=Length("content")
    )
    columns = ("id", "thread_id", "role", "created_at", "head", "length")
    return [
        _Candidate(**row, counts=counts)
        for row in texts.values(*columns)
        if (counts := _counts(row["head"], words))
    ]


def _within(sizes: Iterable[tuple[str, int]], most: int) -> list[str]:
    ids = []
    for pk, size in sizes:
        most -= size
        if most < 0:
            break
        ids.append(pk)
    return ids


def _counts(text: str, words: Sequence[str]) -> dict[str, int]:
    searched = SearchedText(text)
    return {word: count for word in words if (count := searched.count(word))}


def _like_any(patterns: Sequence[str]) -> Func:
    return Func(
        F("content"),
        Value(list(patterns), output_field=ArrayField(TextField())),
        template="(%(expressions)s))",
        arg_joiner=" ILIKE ANY (",
        output_field=BooleanField(),
    )


def _scored(candidates: Sequence[_Candidate], words: Sequence[str], *, total: int) -> list[_Scored]:
    """Return what is relevant, best first; equals by time, the newer first."""
    if not candidates:
        return []
    weights = _weights(candidates, words, max(total, len(candidates)))
    whole = sum(weights.values())
    usual = sum(len(candidate.head) for candidate in candidates) / len(candidates)
    scored = [
        _Scored(
            candidate=candidate,
            score=_bm25(candidate, weights, usual),
            coverage=sum(weights[word] for word in candidate.counts) / whole,
        )
        for candidate in candidates
    ]
    relevant = [found for found in scored if found.coverage >= _LEAST_COVERAGE]
    relevant.sort(
        key=lambda found: (found.score, found.candidate.created_at, found.candidate.id),
        reverse=True,
    )
    return relevant


def _weights(
    candidates: Sequence[_Candidate], words: Sequence[str], total: int
) -> dict[str, float]:
    """Return how telling each word is among `total` messages; always above 0."""
    weights = {}
    for word in words:
        having = max(sum(word in candidate.counts for candidate in candidates), 1)
        weights[word] = math.log(1 + (total - having + 0.5) / (having + 0.5))
    return weights


def _bm25(candidate: _Candidate, weights: Mapping[str, float], usual: float) -> float:
    relative = len(candidate.head) / max(usual, 1)
    damping = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * relative)
    return sum(
        weights[word] * count * (_SATURATION + 1) / (count + damping)
        for word, count in candidate.counts.items()
    )


def _around_first(found: _Candidate) -> str:
    """Return the stretch around the first of the words in the text."""
    folded = found.head.casefold()
    first = min((at for word in found.counts if (at := folded.find(word)) >= 0), default=0)
    return Stretch(piece=found.head, before=0, length=found.length, hit=first).excerpt()
