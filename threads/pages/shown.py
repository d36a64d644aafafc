"""What the page shows of runs, threads and memory, each read with the seat's own rights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.utils.dateparse import parse_datetime
from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from governance import access
from governance.core import service as core
from governance.core.service import CoreMemory
from governance.items import service as items
from governance.items.service import Whose
from memory.errors import NotFoundError
from memory.models import CoreFact, ItemCategory, MemoryItem
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from threads import catalogue
from threads.models import Agent, Run, RunStatus, RunTrace, Thread, ThreadStatus
from threads.pages.markdown import to_html
from threads.pages.seats import Seat

BUBBLES: Final = 30
THREADS: Final = 50
MOST_ITEMS: Final = 100
FOLDED_CHARS: Final = 200
UNFINISHED: Final = frozenset({RunStatus.QUEUED, RunStatus.RUNNING})

SECTIONS: Final[Mapping[str, Promise]] = {
    "guidelines": _("Guidelines"),
    "preferences": _("Preferences"),
    "facts": _("Facts handed in"),
    "core": _("Confirmed facts"),
    "thread": _("This conversation"),
    "related": _("Earlier conversations"),
    "reference": _("Knowledge"),
    "continue": _("Artefacts continued"),
}
TIERS: Final[Mapping[str, Promise]] = {
    "system": _("set by the agent's makers"),
    "fact": _("a value from a database"),
    "approved": _("confirmed by a person"),
    "stated": _("said by the person"),
    "observed": _("seen in an earlier turn"),
    "material": _("reading material"),
    "derived": _("written by a model"),
    "untrusted": _("not to be trusted"),
}
FAILURES: Final[Mapping[str, Promise]] = {
    "provider_timeout": _("The model did not answer in time."),
    "provider_error": _("The model could not be reached or answered with an error."),
    "provider_misconfigured": _("The model is not set up right; ask whoever runs this service."),
    "context_over_budget": _("The question is too long for this model. Shorten it."),
    "interrupted": _("The service was restarted while it answered. Ask again."),
}
FAILED: Final = _("No answer came. Nothing of it is remembered; ask again.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bubble:
    """One turn as the page shows it."""

    run: Run
    html: SafeString
    why: Promise | str = ""

    @property
    def is_unfinished(self) -> bool:
        """Whether the answer is still on its way."""
        return self.run.status in UNFINISHED

    @property
    def artifacts(self) -> Sequence[Any]:
        """The files the turn wrote."""
        return getattr(self.run, "shown_artifacts", ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """A thread's last turns, oldest first; `before` is the seq to go on from towards the start."""

    thread: Thread
    bubbles: Sequence[Bubble]
    before: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedItem:
    """One thing that stood in the prompt of an answer."""

    section: Promise | str
    tier: Promise | str
    content: str
    tokens: int
    at: datetime | None
    stale: bool

    @property
    def is_long(self) -> bool:
        """Whether its words are folded away at first."""
        return len(self.content) > FOLDED_CHARS


def bubble_of(run: Run) -> Bubble:
    """Return a run as a bubble."""
    why: Promise | str = ""
    if run.status in (RunStatus.FAILED, RunStatus.REJECTED):
        why = FAILURES.get(run.error_code or "", FAILED)
        if run.status == RunStatus.REJECTED:
            why = FAILURES["context_over_budget"]
    return Bubble(run=run, html=to_html(run.output), why=why)


def talk_of(*, seat: Seat, thread_id: str, before: int | None = None) -> Talk:
    """Return a thread's last turns, or those before a seq. Cost: four statements.

    Raises:
        NotFoundError: The thread is unknown, or not this person's with this agent.
    """
    thread = catalogue.read_thread(principal=seat.principal, thread_id=thread_id)
    rows = catalogue.runs_of(principal=seat.principal, thread_id=thread_id)
    if before is not None:
        rows = rows.filter(seq__lt=before)
    with scoped_transaction(access.tenant_scope(seat.principal)):
        found = list(rows.order_by("-seq")[: BUBBLES + 1])
    page = found[:BUBBLES][::-1]
    is_more = len(found) > BUBBLES
    return Talk(
        thread=thread,
        bubbles=[bubble_of(run) for run in page],
        before=page[0].seq if is_more else None,
    )


def run_of(*, seat: Seat, run_id: str) -> Bubble:
    """Return one turn. Cost: four statements.

    Raises:
        NotFoundError: It is unknown, or out of this seat's reach.
    """
    run = catalogue.read_run(principal=seat.principal, run_id=run_id)
    rows = catalogue.runs_of(principal=seat.principal, thread_id=run.thread_id)
    with scoped_transaction(access.tenant_scope(seat.principal)):
        found = rows.filter(pk=run_id).first()
    return bubble_of(found or run)


def threads_of(*, seat: Seat, text: str = "", is_archived: bool = False) -> list[Thread]:
    """Return the person's last threads with this agent, by title if `text` is given.

    At most 50, the last changed first. Cost: four statements.
    """
    rows = _threads(seat, ThreadStatus.ARCHIVED if is_archived else ThreadStatus.ACTIVE)
    if text:
        rows = rows.filter(title__icontains=text)
    with scoped_transaction(access.tenant_scope(seat.principal)):
        return list(rows.order_by("-updated_at", "-id")[:THREADS])


def latest_thread(*, seat: Seat) -> Thread | None:
    """Return the active thread that changed last, if there is one."""
    rows = _threads(seat, ThreadStatus.ACTIVE)
    with scoped_transaction(access.tenant_scope(seat.principal)):
        return rows.order_by("-updated_at", "-id").first()


def _threads(seat: Seat, status: ThreadStatus) -> ScopedQuerySet[Thread]:
    return catalogue.threads_of(
        principal=seat.principal,
        agent_id=seat.agent_id,
        user_id=seat.person.pk,
        status=status.value,
    )


def agent_of(*, seat: Seat) -> Agent:
    """Return the seat's agent. Cost: one query.

    Raises:
        NotFoundError: It is gone.
    """
    scope = access.tenant_scope(seat.principal)
    with scoped_transaction(scope):
        agent = catalogue.agents_of(scope=scope).filter(pk=seat.agent_id).first()
    if agent is None:
        raise NotFoundError
    return agent


def used_of(*, seat: Seat, run_id: str) -> list[UsedItem] | None:
    """Return what stood in an answer's prompt, in its order; None where no trace is kept.

    Raises:
        NotFoundError: The run is unknown, or out of this seat's reach.
    """
    trace = catalogue.read_trace(principal=seat.principal, run_id=run_id)
    return list(_used(trace)) if trace.messages or trace.items else None


def _used(trace: RunTrace) -> Iterator[UsedItem]:
    for item in trace.items:
        section, tier = str(item.get("section", "")), str(item.get("tier", ""))
        at = item.get("as_of") or item.get("approved_at") or item.get("created_at")
        yield UsedItem(
            section=SECTIONS.get(section, section),
            tier=TIERS.get(tier, tier),
            content=str(item.get("content", "")),
            tokens=int(item.get("tokens", 0)),
            at=parse_datetime(str(at)) if at else None,
            stale=bool(item.get("stale")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A candidate, and the facts that confirming it would end."""

    candidate: Any
    ends: Sequence[CoreFact]


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What the memory panel shows of a person."""

    facts: Sequence[CoreFact]
    waiting: Sequence[Waiting]
    preferences: Sequence[MemoryItem]


def memory_of(*, seat: Seat, now: datetime) -> Memory:
    """Return a person's facts, what waits, and preferences. Cost: about nine statements."""
    held: CoreMemory = core.core_of(principal=seat.principal, user_id=seat.person.pk)
    rows = items.list_items(
        principal=seat.principal,
        whose=Whose(user_id=seat.person.pk),
        category=ItemCategory.USER_PREFERENCES,
        now=now,
    )
    with scoped_transaction(access.widest_scope(seat.principal)):
        preferences = list(rows.order_by("-updated_at", "-id")[:MOST_ITEMS])
    by_id = {fact.pk: fact for fact in held.facts}
    ends = held.conflicts or {}
    return Memory(
        facts=held.facts,
        waiting=[
            Waiting(candidate=one, ends=[by_id[pk] for pk in ends.get(one.pk, ()) if pk in by_id])
            for one in held.waiting
        ],
        preferences=preferences,
    )
