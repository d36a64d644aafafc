"""Looking into a person's memory for a client: search, grep and the timeline.

An unknown person has nothing of their own, and is not made; search finds for them what the whole
tenant shares, as a prompt would. A key limited to one agent finds the memory of its role, which all
agents of the role share, and of conversations only that agent's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Q
from django.db.models.functions import Left, Length

from governance import access
from governance.access import Principal
from governance.policy import policy_for
from governance.policy_rules import Policy
from governance.secrets import strip_secrets
from governance.tenants import find_end_user
from memory.errors import NotFoundError
from memory.ids import new_id
from memory.models import EndUser
from memory.querysets import ScopedQuerySet
from memory.retrieval.results import Hit, Scores
from memory.rls import narrow_open_scope, scoped_transaction
from memory.scope import Scope
from memory.trust import Source
from threads.models import Agent, Run, RunStatus, Thread
from threads.recall.finding import QuestionVector, Wanted, embed_question, find, settings_of
from threads.recall.items_with import items_having
from threads.recall.messages import MessageQuery, search_messages
from threads.recall.patterns import content_like
from threads.recall.reach import searchable_messages
from threads.recall.scoring import ScoredMessage, score_message

MESSAGE: Final = "message"
ITEM: Final = "item"
KINDS: Final = ("recall", "item", "core", "knowledge", MESSAGE)
DEFAULT_KINDS: Final = KINDS[:-1]
MOST_CHARACTERS: Final = 20_000
_CUT: Final = "…"
_LINE_CHARACTERS: Final = 120
_READ_CHARACTERS: Final = 600
_SHOWN: Final = (RunStatus.SUCCEEDED, RunStatus.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySearch:
    """What a client searches for; `min_score` is the relevance that a result must be above."""

    query: str
    user_id: str
    role: str | None = None
    limit: int = 10
    kinds: Sequence[str] = DEFAULT_KINDS
    min_score: float = 0.2
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMemory:
    """One result; `parts` is what its relevance is made of, by name."""

    id: str
    kind: str
    content: str
    score: float
    scores: Scores
    parts: Mapping[str, float]
    tier: str
    source: Source
    created_at: datetime
    confidence: float | None = None
    stale: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMemories:
    """The results, best first, and the ways in which the search was degraded."""

    results: tuple[FoundMemory, ...] = ()
    degraded_by: tuple[str, ...] = ()

    @property
    def degraded(self) -> str | None:
        """The codes, with commas between them; None for none."""
        return ",".join(self.degraded_by) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryGrep:
    """A text that a client looks for, in which * is a wildcard."""

    query: str
    user_id: str
    role: str | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    limit: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GrepHit:
    """A message or item that has the text; a very long one is cut, with a mark that says so."""

    id: str
    thread_id: str | None
    content: str
    created_at: datetime
    kind: str = MESSAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSources:
    """The queries of a person's turns and threads, decided but not run."""

    turns: ScopedQuerySet[Run]
    threads: ScopedQuerySet[Thread]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """One thing that happened: a turn, or a thread that was begun."""

    at: datetime
    kind: str
    thread_id: str
    run_id: str | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reach:
    """Whose memory a principal looks into, in which role; the transaction is turned to it."""

    scope: Scope
    role: str | None


def search_memories(*, principal: Principal, wanted: MemorySearch, now: datetime) -> FoundMemories:
    """Return what a person's memory has for a query, best first. Cost: a search for each leg asked.

    The query is embedded before the transaction opens.

    Raises:
        ForbiddenError: The principal may not act for this person, or look into this role.
    """
    text = strip_secrets(wanted.query).text
    kinds = tuple(kind for kind in DEFAULT_KINDS if kind in wanted.kinds)
    asked = QuestionVector()
    if kinds:
        scope = access.tenant_scope(principal)
        asked = embed_question(scope=scope, text=text, agent_id=principal.agent_id)
    with _looking(principal, wanted.user_id, wanted.role, finds_shared=True) as reach:
        if reach is None:
            return FoundMemories()
        policy = policy_for(scope=reach.scope, agent_overrides={})
        found: list[FoundMemory] = []
        degraded: tuple[str, ...] = ()
        if kinds:
            query = Wanted(
                tool="search",
                text=text,
                kinds=kinds,
                limit=wanted.limit,
                role=reach.role,
                min_relevance=wanted.min_score,
                as_of=wanted.as_of,
            )
            retrieval = find(scope=reach.scope, wanted=query, asked=asked, policy=policy, now=now)
            found, degraded = [_of_hit(hit) for hit in retrieval.hits], retrieval.trace.degraded
        if MESSAGE in wanted.kinds:
            found += _messages(reach, text, wanted, policy, principal.agent_id, now)
    found.sort(key=lambda one: (one.score, one.created_at, one.id), reverse=True)
    return FoundMemories(results=tuple(found[: wanted.limit]), degraded_by=degraded)


def _messages(
    reach: _Reach,
    text: str,
    wanted: MemorySearch,
    policy: Policy,
    agent_id: str | None,
    now: datetime,
) -> list[FoundMemory]:
    query = MessageQuery(
        text=text,
        limit=wanted.limit,
        role=reach.role,
        agent_id=agent_id,
        min_relevance=wanted.min_score,
        as_of=wanted.as_of,
    )
    settings = settings_of(policy)
    hits = search_messages(scope=reach.scope, query=query).hits
    return [_of_message(score_message(hit=hit, settings=settings, now=now)) for hit in hits]


def _of_hit(hit: Hit) -> FoundMemory:
    return FoundMemory(
        id=hit.id,
        kind=hit.kind,
        content=hit.content,
        score=hit.score,
        scores=hit.scores,
        parts=hit.parts,
        tier=hit.tier,
        source=hit.source,
        created_at=hit.said_at,
        confidence=hit.confidence,
        stale=hit.stale,
    )


def _of_message(one: ScoredMessage) -> FoundMemory:
    hit = one.hit
    return FoundMemory(
        id=hit.id,
        kind=MESSAGE,
        content=_shown(hit.content, hit.length),
        score=one.score,
        scores=one.scores,
        parts={"words": hit.relevance, "bm25": hit.bm25},
        tier=one.tier,
        source=Source(kind="run", id=hit.run_id, external_id=hit.external_id),
        created_at=hit.created_at,
    )


def grep_memories(
    *, principal: Principal, wanted: MemoryGrep, now: datetime
) -> tuple[GrepHit, ...]:
    """Return the newest messages and items with a text. Cost: one query over each of the person's.

    Raises:
        BadPatternError: The query has too many wildcards, or nothing but wildcards.
        ForbiddenError: The principal may not act for this person, or look into this role.
    """
    having = content_like(wanted.query)
    between = Q()
    if wanted.start_time:
        between &= Q(created_at__gte=wanted.start_time)
    if wanted.end_time:
        between &= Q(created_at__lte=wanted.end_time)
    with _looking(principal, wanted.user_id, wanted.role) as reach:
        if reach is None:
            return ()
        rows = searchable_messages(scope=reach.scope, role=reach.role).filter(having, between)
        rows = rows if principal.agent_id is None else rows.filter(thread__agent=principal.agent_id)
        heads = rows.annotate(head=Left("content", MOST_CHARACTERS), length=Length("content"))
        columns = ("id", "thread_id", "head", "length", "created_at")
        newest = heads.order_by("-created_at", "-id").values_list(*columns)[: wanted.limit]
        hits = [
            GrepHit(id=pk, thread_id=thread, content=_shown(head, length), created_at=at)
            for pk, thread, head, length, at in newest
        ]
        hits += _items_with(reach, wanted, now)
    hits.sort(key=lambda hit: (hit.created_at, hit.id), reverse=True)
    return tuple(hits[: wanted.limit])


def _items_with(reach: _Reach, wanted: MemoryGrep, now: datetime) -> list[GrepHit]:
    """Return the newest items with a text in title or content; their time is that of their text."""
    rows = items_having(scope=reach.scope, query=wanted.query, role=reach.role, now=now)
    if wanted.start_time:
        rows = rows.filter(updated_at__gte=wanted.start_time)
    if wanted.end_time:
        rows = rows.filter(updated_at__lte=wanted.end_time)
    newest = rows.order_by("-updated_at", "-id")[: wanted.limit]
    return [
        GrepHit(
            id=item.pk,
            thread_id=None,
            content=item.content,
            created_at=item.updated_at,
            kind=ITEM,
        )
        for item in newest
    ]


def timeline_of(*, principal: Principal, user_id: str, role: str | None) -> TimelineSources:
    """Return the queries of a person's timeline; of an unknown person, of nothing. Cost: two queries.

    Nobody's summary is in it: those are private to their threads.

    Raises:
        ForbiddenError: The principal may not act for this person, or look into this role.
    """
    with _looking(principal, user_id, role) as reach:
        scope = reach.scope if reach else access.tenant_scope(principal)
        turns, threads = Run.objects.in_scope(scope), Thread.objects.in_scope(scope)
        if reach is None:
            return TimelineSources(turns=turns.none(), threads=threads.none())
    if reach.role is not None:
        turns = turns.filter(agent__role=reach.role)
        threads = threads.filter(agent__role=reach.role)
    if principal.agent_id is not None:
        turns = turns.filter(agent=principal.agent_id)
        threads = threads.filter(agent=principal.agent_id)
    turns = turns.filter(status__in=_SHOWN).defer("context", "metadata", "tool_steps")
    return TimelineSources(turns=turns, threads=threads)


def timeline_entry(row: Run | Thread) -> TimelineEntry:
    """Return a turn as one line of what was said and answered, or a thread by its title."""
    if isinstance(row, Thread):
        return TimelineEntry(
            at=row.created_at, kind="thread", thread_id=row.pk, run_id=None, text=row.title
        )
    answered = "(failed)" if row.status == RunStatus.FAILED else _line(row.output)
    return TimelineEntry(
        at=row.created_at,
        kind="turn",
        thread_id=row.thread_id,
        run_id=row.pk,
        text=f"{_line(row.input)} → {answered}",
    )


@contextmanager
def _looking(
    principal: Principal, user_id: str, role: str | None, *, finds_shared: bool = False
) -> Iterator[_Reach | None]:
    """Open a transaction in the scope of one person; for one nobody knows there is no reach.

    Or, where what all share is looked for too, the reach of somebody who has nothing else. Cost:
    three or four statements.
    """
    wide = access.tenant_scope(principal)
    with scoped_transaction(wide):
        role = _role(principal, wide, role)
        person = _person(wide, user_id)
        if person is None:
            access.require_act_for_anybody(principal=principal)
            if not finds_shared:
                yield None
                return
            nobody = wide.narrowed(user_id=new_id("usr"))
            narrow_open_scope(nobody)
            yield _Reach(scope=nobody, role=role)
            return
        scope = access.with_teams(access.scope_for_user(principal=principal, end_user=person))
        narrow_open_scope(scope)
        yield _Reach(scope=scope, role=role)


def _person(scope: Scope, user_id: str) -> EndUser | None:
    return None if "\0" in user_id else find_end_user(scope=scope, user_id=user_id)


def _role(principal: Principal, scope: Scope, role: str | None) -> str | None:
    """Return the role looked into: of a key limited to one agent, that agent's and no other."""
    if principal.agent_id is None:
        return role
    own = Agent.objects.in_scope(scope).filter(pk=principal.agent_id)
    only = own.values_list("role", flat=True).first()
    if only is None:
        raise NotFoundError
    if role not in (None, only):
        raise access.ForbiddenError("This key is limited to an agent of another role.")
    return only


def _shown(head: str, length: int) -> str:
    return head if len(head) >= length else f"{head}{_CUT}"


def _line(text: str) -> str:
    lines = (" ".join(line.split()) for line in text[:_READ_CHARACTERS].splitlines())
    line = next((line for line in lines if line), "")
    return line if len(line) <= _LINE_CHARACTERS else f"{line[:_LINE_CHARACTERS]}{_CUT}"
