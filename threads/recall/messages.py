"""Messages by keywords, best first; found as soon as their run has ended.

A message carries its words as hashes from its run's own transaction. Those of before that, and words
of one Chinese letter, which are in no pair, are looked for in the texts.
Source: BM25 as in Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import numpy as np
from django.contrib.postgres.fields import ArrayField
from django.db.models import BooleanField, Case, F, Func, IntegerField, Q, Sum, Value, When
from django.db.models.functions import Coalesce, Least, Left, Length

from memory.querysets import ScopedQuerySet
from memory.retrieval.words import folded, hash_of, message_terms, words_of
from memory.scope import Scope
from threads.models import Message, Thread
from threads.recall.patterns import content_like_any, like_escaped
from threads.recall.reach import searchable_messages

MOST_SEARCHED: Final = 2000
MOST_SEARCHED_CHARACTERS: Final = 20_000
_MOST_READ_CHARACTERS: Final = 3_000_000
_MOST_WORDS: Final = 128
_SATURATION: Final = 1.2
_LENGTH_SHARE: Final = 0.3
_FIRST_WIDE: Final = "\u3040"
_INTS: Final = ArrayField(IntegerField())


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQuery:
    """Words to look for.

    Attributes:
        role: Only in threads with agents of this role; None for all.
        agent_id: Only in threads with this agent.
        min_relevance: The share of the words' weight that a message must have more than.
        as_of: Only what was said by then.
    """

    text: str
    limit: int
    role: str | None = None
    agent_id: str | None = None
    min_relevance: float = 0.2
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHit:
    """A message that has some of the words.

    Attributes:
        content: Its first 20,000 characters; `length` is that of all of it.
        relevance: The share of the words' weight that it has, 0 to 1.
        bm25: Orders those of one relevance.
        words: Those it has.
    """

    id: str
    thread_id: str
    run_id: str
    role: str
    created_at: datetime
    external_id: str | None
    relevance: float
    bm25: float
    words: tuple[str, ...]
    content: str = ""
    length: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMessages:
    """The best messages, best first; how many had a word, and how many had enough of them."""

    hits: tuple[MessageHit, ...]
    candidate_count: int = 0
    relevant_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """The words of a query, each once, by the hashes that stand for them; and the lone letters."""

    by_hash: Mapping[int, str]

    @property
    def letters(self) -> list[str]:
        """Words of one letter that are in no pair; a single Latin letter is a word as others are."""
        return [w for w in self.by_hash.values() if len(w) == 1 and w >= _FIRST_WIDE]

    def patterns(self) -> list[str]:
        """Return what the texts of rows without hashes are narrowed by: more than the words."""
        return [f"%{like_escaped(word.rstrip('i') or word)}%" for word in self.by_hash.values()]

    def of_text(self, text: str) -> frozenset[int]:
        found = set(message_terms(text)) & self.by_hash.keys()
        lower, letters = folded(text), self.letters
        found |= {key for key, word in self.by_hash.items() if word in letters and word in lower}
        return frozenset(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A message that may have a word: which ones, and how many words it has altogether."""

    row: Mapping[str, Any]
    matched: frozenset[int]
    size: int


def has_words(text: str) -> bool:
    """Say whether a text has words to look for."""
    return bool(words_of(text))


def search_messages(*, scope: Scope, query: MessageQuery) -> FoundMessages:
    """Return the person's messages for the words. Cost: three queries, a fourth for old rows.

    Looks at the newest 2,000 messages that have one of the words. `scope` names the person; inside
    the caller's transaction.
    """
    words = _words(query.text)
    if not words.by_hash:
        return FoundMessages(hits=())
    rows = searchable_messages(scope=scope, role=query.role)
    if query.agent_id is not None:
        rows = rows.filter(thread__agent=query.agent_id)
    rows = rows.filter(created_at__lte=query.as_of) if query.as_of else rows
    candidates = _candidates(rows, words)
    if not candidates:
        return FoundMessages(hits=())
    scored = _scored(candidates, words, total=_total(scope, query.role))
    relevant = [hit for hit in scored if hit.relevance > query.min_relevance]
    relevant.sort(key=lambda hit: (hit.relevance, hit.bm25, hit.created_at, hit.id), reverse=True)
    return FoundMessages(
        hits=_with_contents(rows, relevant[: query.limit]),
        candidate_count=len(candidates),
        relevant_count=len(relevant),
    )


def _words(text: str) -> _Words:
    found = list(dict.fromkeys(words_of(text)))[:_MOST_WORDS]
    hashes = np.array([hash_of(word) for word in found], dtype=np.uint32).view(np.int32)
    return _Words(by_hash={int(key): word for key, word in zip(hashes, found, strict=True)})


def _candidates(rows: ScopedQuerySet[Message], words: _Words) -> list[_Candidate]:
    hashes = list(words.by_hash)
    old = Q(terms__isnull=True) & Q(content_like_any(words.patterns()))
    having = Q(terms__overlap=hashes) | old
    needs_text = Q(terms__isnull=True)
    if words.letters:
        lone = Q(content_like_any([f"%{like_escaped(letter)}%" for letter in words.letters]))
        having, needs_text = having | lone, needs_text | lone
    found = (
        rows.filter(having)
        .order_by("-created_at", "-id")
        .values("id", "thread_id", "run_id", "role", "created_at", "external_id")
        .annotate(
            matched=_shared(hashes),
            size=Coalesce(Func(F("terms"), function="cardinality"), 0, output_field=IntegerField()),
            needs_text=Case(
                When(needs_text, then=True), default=False, output_field=BooleanField()
            ),
            characters=Least(Length("content"), Value(MOST_SEARCHED_CHARACTERS)),
        )
    )
    listed = list(found[:MOST_SEARCHED])
    texts = _texts(rows, [row for row in listed if row["needs_text"]])
    candidates = [_candidate(row, words, texts.get(row["id"])) for row in listed]
    return [candidate for candidate in candidates if candidate.matched]


def _shared(hashes: Sequence[int]) -> Func:
    """Return which of the hashes a row's terms have."""
    return Func(
        F("terms"),
        Value(list(hashes), output_field=_INTS),
        template="ARRAY(SELECT unnest(%(expressions)s))",
        arg_joiner=") INTERSECT SELECT unnest(",
        output_field=_INTS,
    )


def _candidate(row: Mapping[str, Any], words: _Words, text: str | None) -> _Candidate:
    if text is None:
        return _Candidate(row=row, matched=frozenset(row["matched"]), size=row["size"])
    size = row["size"] or len(message_terms(text))
    return _Candidate(row=row, matched=words.of_text(text), size=size)


def _texts(rows: ScopedQuerySet[Message], listed: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Read the texts of the newest of these rows, up to 3 million characters."""
    ids, left = [], _MOST_READ_CHARACTERS
    for row in listed:
        left -= row["characters"]
        if left < 0:
            break
        ids.append(row["id"])
    if not ids:
        return {}
    heads = rows.filter(pk__in=ids).annotate(head=Left("content", MOST_SEARCHED_CHARACTERS))
    return dict(heads.values_list("id", "head"))


def _total(scope: Scope, role: str | None) -> int:
    """Return about how many messages there are, from the threads' counts: most turns have two."""
    threads = Thread.objects.in_scope(scope)
    threads = threads if role is None else threads.filter(agent__role=role)
    return 2 * (threads.aggregate(turns=Sum("run_count"))["turns"] or 0)


def _scored(candidates: Sequence[_Candidate], words: _Words, *, total: int) -> list[MessageHit]:
    """Return the candidates with their relevance and BM25 by hashes, which tell no frequency."""
    total = max(total, len(candidates))
    weights = {}
    for key in words.by_hash:
        having = max(sum(key in candidate.matched for candidate in candidates), 1)
        weights[key] = math.log(1 + (total - having + 0.5) / (having + 0.5))
    whole = sum(weights.values())
    usual = sum(candidate.size for candidate in candidates) / len(candidates)
    return [_hit(candidate, words, weights, whole, usual) for candidate in candidates]


def _hit(
    candidate: _Candidate,
    words: _Words,
    weights: Mapping[int, float],
    whole: float,
    usual: float,
) -> MessageHit:
    mass = sum(weights[key] for key in candidate.matched)
    relative = candidate.size / max(usual, 1)
    damping = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * relative)
    columns = ("id", "thread_id", "run_id", "role", "created_at", "external_id")
    return MessageHit(
        **{name: candidate.row[name] for name in columns},
        relevance=mass / whole,
        bm25=mass * (_SATURATION + 1) / (1 + damping),
        words=tuple(word for key, word in words.by_hash.items() if key in candidate.matched),
    )


def _with_contents(
    rows: ScopedQuerySet[Message], hits: Sequence[MessageHit]
) -> tuple[MessageHit, ...]:
    if not hits:
        return ()
    read = rows.filter(pk__in=[hit.id for hit in hits]).annotate(
        head=Left("content", MOST_SEARCHED_CHARACTERS), length=Length("content")
    )
    found = {row["id"]: row for row in read.values("id", "head", "length")}
    return tuple(
        replace(hit, content=found[hit.id]["head"], length=found[hit.id]["length"])
        for hit in hits
        if hit.id in found
    )
