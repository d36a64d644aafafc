"""Teams: which people of a tenant share team memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db.models import Prefetch

from governance import audit
from governance.tenants import ensure_end_user
from memory.errors import ConflictError, NotFoundError
from memory.models import Team, TeamMember
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope


class TeamNameTakenError(ConflictError):
    """A team has that name."""

    code = "name_taken"


def create_team(*, scope: Scope, name: str, members: Sequence[str], now: datetime) -> Team:
    """Make a team of the persons with these user_ids, created on first write; audited.

    Cost: two statements a member.

    Raises:
        TeamNameTakenError: A team of the tenant has the name.
        ReservedUserIdError: A user_id can not be a tenant's own.
    """
    with scoped_transaction(scope):
        team = Team(tenant_id=scope.tenant_id, name=name, created_at=now)
        _check_name(scope, team)
        team.save(force_insert=True)
        _set_members(scope, team, members, now)
        _audit(scope, "team_created", team, now, len(set(members)))
        return _loaded(scope, team.pk)


def update_team(
    *,
    scope: Scope,
    team_id: str,
    now: datetime,
    name: str | None = None,
    members: Sequence[str] | None = None,
) -> Team:
    """Rename a team, replace its members, or both; audited.

    Raises:
        NotFoundError: There is none in scope.
        TeamNameTakenError: Another team of the tenant has the name.
        ReservedUserIdError: A user_id can not be a tenant's own.
    """
    with scoped_transaction(scope):
        team = _locked(scope, team_id)
        if name is not None:
            team.name = name
            _check_name(scope, team)
            team.save(update_fields=["name"])
        if members is not None:
            _set_members(scope, team, members, now)
        _audit(scope, "team_updated", team, now, len(set(members or ())))
        return _loaded(scope, team_id)


def delete_team(*, scope: Scope, team_id: str, now: datetime) -> None:
    """Delete a team and its memberships, never its people; audited.

    Raises:
        NotFoundError: There is none in scope.
    """
    with scoped_transaction(scope):
        team = _locked(scope, team_id)
        _audit(scope, "team_deleted", team, now, 0)
        team.delete()


def _locked(scope: Scope, team_id: str) -> Team:
    team = Team.objects.in_scope(scope).select_for_update().filter(pk=team_id).first()
    if team is None:
        raise NotFoundError
    return team


def _loaded(scope: Scope, team_id: str) -> Team:
    return teams_of(scope=scope).get(pk=team_id)


def teams_of(*, scope: Scope) -> ScopedQuerySet[Team]:
    """Return the query of a tenant's teams with their members; run it inside a transaction."""
    members = TeamMember.objects.in_scope(scope).select_related("end_user")
    return Team.objects.in_scope(scope).prefetch_related(Prefetch("members", queryset=members))


def _check_name(scope: Scope, team: Team) -> None:
    others = Team.objects.in_scope(scope).filter(name=team.name).exclude(pk=team.pk)
    if others.exists():
        raise TeamNameTakenError


def _set_members(scope: Scope, team: Team, members: Sequence[str], now: datetime) -> None:
    people = {
        ensure_end_user(scope=scope, user_id=user_id, now=now).pk
        for user_id in sorted(set(members))
    }
    memberships = TeamMember.objects.in_scope(scope).filter(team_id=team.pk)
    memberships.exclude(end_user_id__in=people).delete()
    known = set(memberships.values_list("end_user_id", flat=True))
    for person_id in sorted(people - known):
        membership = TeamMember(tenant_id=scope.tenant_id, team_id=team.pk, end_user_id=person_id)
        membership.save(force_insert=True)


def _audit(scope: Scope, action: str, team: Team, now: datetime, member_count: int) -> None:
    audit.record(
        scope=scope,
        action=action,
        target_kind="team",
        target_id=team.pk,
        now=now,
        detail={"members": member_count},
    )
