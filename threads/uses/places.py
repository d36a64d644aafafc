"""Where an item stands: whose it is, of which thread, and what it was made of.

Inside the caller's transaction, in the scope of a tenant.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from governance.models import Disclosure
from memory.models import EndUser
from memory.scope import Scope
from threads.models import Message, Run, Thread
from threads.uses import made, summaries
from threads.uses.kinds import KINDS, prefix_of
from threads.uses.reach import Reach
from threads.uses.records import Linked

_RUN_KINDS = frozenset({"msg", "run"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An item that is there.

    Attributes:
        end_user_id: Its person; None for what is the tenant's or a team's.
        thread: Its thread, for what is part of one.
        seeds: The ids under which it is shown or made something of.
        sources: What it was made of.
        above: What is known to be made of it: summaries, nodes, versions.
        at: Since when it is there.
    """

    id: str
    end_user_id: str | None
    thread: Thread | None
    seeds: tuple[str, ...]
    sources: tuple[Linked, ...] = ()
    above: tuple[Linked, ...] = ()
    at: datetime


def find(*, reach: Reach, item_id: str) -> Place | None:
    """Return where an item stands; None if it is gone, never was, or is out of reach.

    Cost: one to six queries.
    """
    prefix = prefix_of(item_id)
    if prefix == "node":
        return _node(reach, item_id)
    kind = KINDS.get(prefix)
    if kind is None or kind.model is None:
        return None
    names = _columns(kind.model)
    row = kind.model.objects.in_scope(reach.scope).filter(pk=item_id).only(*names).first()
    if row is None or _is_leaving(reach.scope, getattr(row, "end_user_id", None)):
        return None
    thread_id = row.pk if prefix == "th" else getattr(row, "thread_id", None)
    run_id = getattr(row, "run_id", None)
    if prefix == "art" or thread_id is None:
        thread_id = thread_id or _thread_of(reach.scope, run_id)
    thread = _thread(reach.scope, thread_id)
    if thread_id is not None and (thread is None or not reach.covers(thread.agent_id)):
        return None
    return Place(
        id=item_id,
        end_user_id=getattr(row, "end_user_id", None),
        thread=thread,
        seeds=(item_id, row.run_id) if prefix == "msg" else (item_id,),
        sources=tuple(_sources(reach.scope, prefix, row)),
        above=tuple(_above(reach.scope, prefix, row, thread)),
        at=getattr(row, kind.at),
    )


def _columns(model: Any) -> list[str]:
    """Return the columns to read: keys, numbers and times, nothing that was said."""
    personal = frozenset(getattr(model, "personal", ()))
    return [one.attname for one in model._meta.concrete_fields if one.name not in personal]


def _is_leaving(scope: Scope, end_user_id: str | None) -> bool:
    if end_user_id is None:
        return False
    people = EndUser.objects.in_scope(scope).filter(pk=end_user_id, erasing_at__isnull=True)
    return not people.exists()


def _thread_of(scope: Scope, run_id: str | None) -> str | None:
    if run_id is None:
        return None
    rows = Run.objects.in_scope(scope).filter(pk=run_id)
    return rows.values_list("thread_id", flat=True).first()


def _thread(scope: Scope, thread_id: str | None) -> Thread | None:
    if thread_id is None:
        return None
    return Thread.objects.in_scope(scope).defer("title").filter(pk=thread_id).first()


def _sources(scope: Scope, prefix: str, row: Any) -> list[Linked]:
    found = []
    for column in KINDS[prefix].sources:
        named = getattr(row, column)
        if named:
            found.append(Linked(kind=KINDS[prefix_of(named)].word, id=named))
    if prefix == "run":
        said = Message.objects.in_scope(scope).filter(run_id=row.pk).order_by("position")
        pairs = said.values_list("pk", "created_at")[: made.MOST]
        found += [Linked(kind="message", id=pk, at=at) for pk, at in pairs]
    if prefix == "ecand":
        found += made.evidence_of(scope=scope, candidate_id=row.pk)
    if prefix == "ent":
        listed = {one.id for one in found}
        evidence = made.evidence_of_entity(scope=scope, entity_id=row.pk)
        found += [one for one in evidence if one.id not in listed]
    return found


def _above(scope: Scope, prefix: str, row: Any, thread: Thread | None) -> list[Linked]:
    if prefix == "mem":
        return made.versions_of(scope=scope, item_id=row.pk)
    if thread is None or prefix not in {*_RUN_KINDS, "th"}:
        return []
    if prefix == "th":
        return summaries.standing_on(scope=scope, thread=thread, seqs=None)
    run_id = row.run_id if prefix == "msg" else row.pk
    seq = Run.objects.in_scope(scope).filter(pk=run_id).values_list("seq", flat=True).get()
    above = summaries.standing_on(scope=scope, thread=thread, seqs=[seq])
    own = Linked(kind="run", id=run_id, at=row.created_at)
    return [own, *above] if prefix == "msg" else above


def _node(reach: Reach, node_id: str) -> Place | None:
    """Return a node's place: its thread is known from its messages, or from where it was shown.

    No wider scope may read nodes, on purpose.
    """
    scope = reach.scope
    told = Message.objects.in_scope(scope).filter(summary_node_id=node_id)
    thread_id = told.values_list("thread_id", flat=True).first()
    if thread_id is None:
        shown = Disclosure.objects.in_scope(scope).filter(item_ids__contains=[node_id])
        thread_id = shown.values_list("thread_id", flat=True).first()
    thread = _thread(scope, thread_id)
    if thread is None or not reach.covers(thread.agent_id):
        return None
    if _is_leaving(scope, thread.end_user_id):
        return None
    found = summaries.around_node(scope=scope, thread=thread, node_id=node_id)
    if found is None:
        return None
    node, below, above = found
    return Place(
        id=node_id,
        end_user_id=thread.end_user_id,
        thread=thread,
        seeds=(node_id,),
        sources=tuple(below),
        above=tuple(above),
        at=node.created_at,
    )
