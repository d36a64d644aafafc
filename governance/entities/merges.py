"""Two entities that are one: merging them, and undoing it exactly.

A merged entity keeps its own names and weight; the other one gets its names as aliases, and the
greater weight. No chains: what holds others or is merged itself is merged no further.
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q

from governance import audit
from governance.decisions import AlreadyDecidedError
from governance.entities.problems import (
    CanNotMergeError,
    NotMergedError,
    TooManyAliasesError,
)
from governance.entities.terms import MOST_ALIASES
from memory.errors import NotFoundError
from memory.models import Entity, EntityMerge, EntityStatus, MergeStatus
from memory.retrieval.names import name_key
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.store.entities import (
    NewEvent,
    add_event,
    add_merge,
    decide_merge,
    hold_vocabulary,
    move_into,
    move_out,
    set_aliases,
)


def merge(*, scope: Scope, source_id: str, target_id: str, by: str, now: datetime) -> Entity:
    """Merge an entity into an active one and return that; the same again changes nothing.

    Cost: about sixteen statements.

    Raises:
        NotFoundError: One of them is not in scope.
        AlreadyDecidedError: It is merged into a third one.
        CanNotMergeError: They are the same, the target is not active, or the source holds others.
        TooManyAliasesError: The target would have more than it can.
    """
    with scoped_transaction(scope):
        hold_vocabulary(scope=scope)
        source, target = _two(scope, source_id, target_id)
        if source.status == EntityStatus.MERGED:
            if source.merged_into_id != target.pk:
                raise AlreadyDecidedError
            return target
        _require_mergeable(scope, source, target)
        names = {name_key(name) for name in (target.term, *target.aliases)}
        added = [name for name in (source.term, *source.aliases) if name_key(name) not in names]
        if len(target.aliases) + len(added) > MOST_ALIASES:
            raise TooManyAliasesError
        weight = max(source.weight, target.weight)
        set_aliases(
            scope=scope, entity_id=target.pk, kept=[*target.aliases, *added], added=(), now=now
        )
        move_into(scope=scope, source_id=source.pk, target_id=target.pk, weight=weight, now=now)
        decide_merge(
            merge=_merge_of(scope, source, target, now),
            status=MergeStatus.MERGED,
            by=by,
            now=now,
            source_id=source.pk,
            target_id=target.pk,
            before={"aliases": target.aliases, "added": added, "status": str(source.status)},
            before_weight=target.weight,
        )
        _note(scope, "merged", source, target, (target.weight, weight), by, now)
        return Entity.objects.in_scope(scope).get(pk=target.pk)


def unmerge(*, scope: Scope, entity_id: str, by: str, now: datetime) -> Entity:
    """Let a merged entity live by itself again, as both were; return it.

    What changed of the target since stays: aliases that were added, and the share by which its
    weight moved. Cost: about twelve statements.

    Raises:
        NotFoundError: There is none in scope.
        NotMergedError: It is not merged.
    """
    with scoped_transaction(scope):
        hold_vocabulary(scope=scope)
        source = _locked(scope, [entity_id]).get(entity_id)
        if source is None:
            raise NotFoundError
        done = EntityMerge.objects.in_scope(scope).filter(
            source_id=entity_id, status=MergeStatus.MERGED
        )
        last = done.order_by("-decided_at").first()
        if source.merged_into_id is None or last is None:
            raise NotMergedError
        target = _locked(scope, [source.merged_into_id])[source.merged_into_id]
        gone = {name_key(name) for name in last.before["added"]}
        kept = [alias for alias in target.aliases if name_key(alias) not in gone]
        set_aliases(scope=scope, entity_id=target.pk, kept=kept, added=(), now=now)
        weight = _weight_without(source, target, last)
        move_out(
            scope=scope,
            source_id=source.pk,
            target_id=target.pk,
            status=last.before["status"],
            weight=weight,
            now=now,
        )
        decide_merge(merge=last, status=MergeStatus.UNDONE, by=by, now=now)
        _note(scope, "unmerged", source, target, (target.weight, weight), by, now)
        return Entity.objects.in_scope(scope).get(pk=entity_id)


def refuse_merge(*, scope: Scope, merge_id: str, by: str, now: datetime) -> EntityMerge:
    """Refuse a proposed merge, which is then not proposed again; the same again changes nothing.

    Raises:
        NotFoundError: There is none in scope.
        AlreadyDecidedError: It was done.
    """
    with scoped_transaction(scope):
        rows = EntityMerge.objects.in_scope(scope).filter(pk=merge_id)
        found = rows.select_for_update(of=("self",)).first()
        if found is None:
            raise NotFoundError
        if found.status == MergeStatus.PROPOSED:
            decide_merge(merge=found, status=MergeStatus.REFUSED, by=by, now=now)
            _audit(scope, "entity_merge_refused", found.source_id, found.target_id, now)
        elif found.status != MergeStatus.REFUSED:
            raise AlreadyDecidedError
        return found


def _locked(scope: Scope, ids: list[str]) -> dict[str, Entity]:
    rows = Entity.objects.in_scope(scope).filter(pk__in=ids).order_by("id")
    return {row.pk: row for row in rows.select_for_update(no_key=True, of=("self",))}


def _two(scope: Scope, source_id: str, target_id: str) -> tuple[Entity, Entity]:
    found = _locked(scope, [source_id, target_id])
    if source_id not in found or target_id not in found:
        raise NotFoundError
    return found[source_id], found[target_id]


def _require_mergeable(scope: Scope, source: Entity, target: Entity) -> None:
    if source.pk == target.pk or target.status != EntityStatus.ACTIVE:
        raise CanNotMergeError
    if Entity.objects.in_scope(scope).filter(merged_into_id=source.pk).exists():
        raise CanNotMergeError("Others are merged into this one; undo that first.")


def _merge_of(scope: Scope, source: Entity, target: Entity, now: datetime) -> EntityMerge:
    """Return the row of this merge: what was proposed or refused, either way round, or a new one."""
    rows = EntityMerge.objects.in_scope(scope).filter(status__in=("proposed", "refused"))
    same = Q(source_id=source.pk, target_id=target.pk)
    turned = Q(source_id=target.pk, target_id=source.pk)
    found = rows.filter(same).first() or rows.filter(turned).first()
    if found is not None:
        return found
    return add_merge(scope=scope, source_id=source.pk, target_id=target.pk, score=0.0, now=now)


def _weight_without(source: Entity, target: Entity, done: EntityMerge) -> float:
    """Return the target's weight as if the merge had not been, moved as it moved since."""
    before = target.weight if done.before_weight is None else done.before_weight
    together = max(source.weight, before)
    return before if target.weight == together else before * target.weight / together


def _note(
    scope: Scope,
    kind: str,
    source: Entity,
    target: Entity,
    weights: tuple[float, float],
    by: str,
    now: datetime,
) -> None:
    """Write the events of both and the audit row."""
    before, after = weights
    own = NewEvent(
        kind=kind, weight_before=source.weight, weight_after=source.weight, other=target.pk
    )
    others = NewEvent(kind=kind, weight_before=before, weight_after=after, other=source.pk)
    add_event(scope=scope, entity_id=source.pk, event=own, by=by, now=now)
    add_event(scope=scope, entity_id=target.pk, event=others, by=by, now=now)
    _audit(scope, f"entity_{kind}", source.pk, target.pk, now)


def _audit(scope: Scope, action: str, source_id: str, target_id: str, now: datetime) -> None:
    audit.record(
        scope=scope,
        action=action,
        target_kind="entity",
        target_id=source_id,
        now=now,
        detail={"other": target_id},
    )
