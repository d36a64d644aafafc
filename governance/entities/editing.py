"""Changing an entity by hand: its term, its other names, whether it takes part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from governance import audit, gate
from governance.entities.problems import MergedEntityError, NameTakenError, TooManyAliasesError
from governance.entities.proposals import entity_named
from governance.entities.terms import MOST_ALIASES, admit_name
from governance.policy import policy_for
from governance.policy_rules import Policy
from memory.cleared import Cleared
from memory.errors import NotFoundError
from memory.models import Entity, EntityStatus
from memory.retrieval.names import name_key
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.store.entities import (
    NewEvent,
    activate_entity,
    add_event,
    hold_vocabulary,
    rename_entity,
    retire_entity,
    set_aliases,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityChange:
    """What to change of an entity; None and empty leave a thing as it is.

    Attributes:
        term: Another term.
        aliases: All its other names.
        add_aliases: Names to add to those there are when it is changed.
        remove_aliases: Names to take away likewise, however they are written.
        status: `active` or `retired`.
    """

    term: str | None = None
    aliases: Sequence[str] | None = None
    add_aliases: Sequence[str] = ()
    remove_aliases: Sequence[str] = ()
    status: str | None = None


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of a change after the gate."""

    term: Cleared | None
    aliases: list[Cleared] | None
    added: list[Cleared]


def change_entity(
    *, scope: Scope, entity_id: str, change: EntityChange, by: str, now: datetime
) -> Entity:
    """Change an entity, audited and evented once; what is so already changes nothing.

    Others that change the same one wait, so that no name is lost between two. Cost: about ten
    statements.

    Raises:
        NotFoundError: There is none in scope.
        MergedEntityError: It is merged into another one.
        NameTakenError: Another entity of its type has one of the names.
        NotRememberedError: The gate lets a name not through.
        TooManyAliasesError: There would be more than 200.
    """
    with scoped_transaction(scope):
        policy = policy_for(scope=scope, agent_overrides={})
    names = _through_the_gate(change, policy)
    with scoped_transaction(scope):
        hold_vocabulary(scope=scope)
        entity = _locked(scope, entity_id)
        if entity.status == EntityStatus.MERGED:
            raise MergedEntityError
        changed = [
            *_rename(scope, entity, names.term, now),
            *_change_aliases(scope, entity, names, change, now),
            *_change_status(scope, entity, change.status, now),
        ]
        if changed:
            _note(scope, entity, changed, names, by, now)
        return Entity.objects.in_scope(scope).get(pk=entity_id)


def _through_the_gate(change: EntityChange, policy: Policy) -> _Names:
    def cleared(names: Sequence[str]) -> list[Cleared]:
        return [admit_name(text=name, policy=policy) for name in names]

    return _Names(
        None if change.term is None else admit_name(text=change.term, policy=policy),
        None if change.aliases is None else cleared(change.aliases),
        cleared(change.add_aliases),
    )


def _locked(scope: Scope, entity_id: str) -> Entity:
    rows = Entity.objects.in_scope(scope).filter(pk=entity_id)
    found = rows.select_for_update(no_key=True, of=("self",)).first()
    if found is None:
        raise NotFoundError
    return found


def _rename(scope: Scope, entity: Entity, term: Cleared | None, now: datetime) -> list[str]:
    if term is None or term.text == entity.term:
        return []
    key = name_key(term.text)
    rows = Entity.objects.in_scope(scope).filter(entity_type=entity.entity_type, term_key=key)
    if rows.exclude(pk=entity.pk).exists():
        raise NameTakenError
    _require_free(scope, entity, [term.text])
    rename_entity(scope=scope, entity_id=entity.pk, term=term, now=now)
    entity.term, entity.term_key = term.text, key
    return ["term"]


def _change_aliases(
    scope: Scope, entity: Entity, names: _Names, change: EntityChange, now: datetime
) -> list[str]:
    """Set the aliases to what they are to be, reckoned from what they are now."""
    gone = {name_key(name) for name in change.remove_aliases} | {entity.term_key}
    if names.aliases is not None:
        wanted = {name_key(one.text) for one in names.aliases}
        gone |= {name_key(alias) for alias in entity.aliases} - wanted
    kept = [alias for alias in entity.aliases if name_key(alias) not in gone]
    there = {name_key(alias) for alias in kept} | gone
    offered = [*(names.aliases or ()), *names.added]
    added = [one for one in offered if name_key(one.text) not in there]
    if kept == entity.aliases and not added:
        return []
    if len(kept) + len(added) > MOST_ALIASES:
        raise TooManyAliasesError
    _require_free(scope, entity, [one.text for one in added])
    set_aliases(scope=scope, entity_id=entity.pk, kept=kept, added=added, now=now)
    return ["aliases"]


def _require_free(scope: Scope, entity: Entity, names: Sequence[str]) -> None:
    for name in names:
        key = name_key(name)
        kind = entity.entity_type
        if entity_named(scope=scope, entity_type=kind, key=key, except_id=entity.pk):
            raise NameTakenError


def _change_status(scope: Scope, entity: Entity, status: str | None, now: datetime) -> list[str]:
    if status is None or status == entity.status:
        return []
    if status == EntityStatus.RETIRED:
        retire_entity(scope=scope, entity_id=entity.pk, now=now)
    else:
        activate_entity(scope=scope, entity_id=entity.pk, now=now)
    return [status]


def _note(
    scope: Scope, entity: Entity, changed: list[str], names: _Names, by: str, now: datetime
) -> None:
    kind = "retired" if EntityStatus.RETIRED in changed else "edited"
    event = NewEvent(kind=kind, weight_before=entity.weight, weight_after=entity.weight)
    add_event(scope=scope, entity_id=entity.pk, event=event, by=by, now=now)
    cleared = [one for one in (names.term, *(names.aliases or ()), *names.added) if one]
    detail = gate.written_detail(kind="entity", cleared=cleared, run_id=None, origin="api")
    audit.record(
        scope=scope,
        action="entity_changed",
        target_kind="entity",
        target_id=entity.pk,
        now=now,
        detail={**detail, "changed": sorted(changed)},
    )
