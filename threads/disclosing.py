"""What a prompt shows is written down before any model sees it: ids only, in the same transaction.

What tools returned is written when the call that will show it is made ready, so that a process
that dies a moment later has not shown anything that nobody knows of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import re2

from governance.disclosures import Shown, record
from governance.models import DisclosureKind
from memory.ids import SHAPE
from memory.scope import Scope
from threads.models import Agent, ContextTrace, Run
from threads.tools.records import ToolOutcome

_IDS: Final = re2.compile(rf"\b{SHAPE}\b")
# Sources that are themselves shown by a part of them.
_WHOLES: Final = frozenset({"document"})


def note_prompt(
    *, scope: Scope, run: Run, agent: Agent, items: Iterable[Mapping[str, Any]], now: datetime
) -> None:
    """Write what the prompt of an accepted run shows. Cost: one INSERT."""
    shown = _shown(DisclosureKind.RUN, scope, run, agent, ids_of(items))
    record(scope=scope, shown=shown, now=now)


def note_context(
    *, scope: Scope, trace: ContextTrace, agent: Agent, items: Iterable[Mapping[str, Any]]
) -> None:
    """Write what an assembled context hands to whoever calls models himself. Cost: one INSERT."""
    shown = _shown(DisclosureKind.CONTEXT, scope, trace, agent, ids_of(items))
    record(scope=scope, shown=shown, now=trace.created_at)


def note_tools(
    *, scope: Scope, run: Run, agent: Agent, outcomes: Sequence[ToolOutcome], now: datetime
) -> None:
    """Write what the tools of a round are about to show. Cost: one INSERT; none without an id."""
    ids = tuple(one for outcome in outcomes for one in shown_by(outcome))
    if ids:
        shown = _shown(DisclosureKind.TOOL, scope, run, agent, ids)
        record(scope=scope, shown=shown, now=now)


def ids_of(items: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the ids of a trace's items, and of a document the passage is of."""
    for item in items:
        yield str(item.get("id") or "")
        source = item.get("source") or {}
        if source.get("kind") in _WHOLES:
            yield str(source.get("id") or "")


def shown_by(outcome: ToolOutcome) -> Iterator[str]:
    """Yield each id in what a tool's result shows, and of what it was asked to open."""
    if not outcome.is_error:
        yield from _IDS.findall(outcome.call.arguments)
    yield from _IDS.findall(outcome.shown)


def _shown(
    kind: DisclosureKind, scope: Scope, place: Run | ContextTrace, agent: Agent, ids: Iterable[str]
) -> Shown:
    return Shown(
        kind=kind,
        run_id=place.pk,
        thread_id=place.thread_id,
        agent_id=agent.pk,
        key_id=scope.principal_id,
        provider_id=agent.provider_id,
        model=agent.model,
        item_ids=tuple(ids),
    )
