"""guardian's permission tables, with direct foreign keys, on the roots of scope only.

Items inherit from their root, so these stay small: O(roles x roots) rows (findings: per-row grants
cost seconds at a million rows; generic ones are inherited by whoever reuses a primary key).
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from guardian.models import GroupObjectPermissionBase, UserObjectPermissionBase

from memory.errors import InvalidInputError

TENANT_CODENAMES = frozenset(
    "use_tenant act_for run_agent view_tenant approve confirm manage_policy export erase"
    " view_audit".split()
)


class _Allowed(models.Model):
    """Refuses to store a codename that does not belong on this root."""

    allowed: ClassVar[frozenset[str]]

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return str(self.pk)

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Store the grant.

        Raises:
            InvalidInputError: The permission's codename is not allowed on this root.
        """
        codename: str = self.permission.codename  # type: ignore[attr-defined]
        if codename not in self.allowed:
            raise InvalidInputError(f"{codename} can not be granted on this kind of object.")
        super().save(*args, **kwargs)


class TenantUserGrant(_Allowed, UserObjectPermissionBase):
    """A principal's permission on a tenant."""

    allowed = TENANT_CODENAMES
    content_object = models.ForeignKey("memory.Tenant", on_delete=models.CASCADE)


class TenantGroupGrant(_Allowed, GroupObjectPermissionBase):
    """A role's permission on a tenant."""

    allowed = TENANT_CODENAMES
    content_object = models.ForeignKey("memory.Tenant", on_delete=models.CASCADE)


class AgentUserGrant(_Allowed, UserObjectPermissionBase):
    """A principal's permission to run one agent."""

    allowed = frozenset({"run_this_agent"})
    content_object = models.ForeignKey("threads.Agent", on_delete=models.CASCADE)


class AgentGroupGrant(_Allowed, GroupObjectPermissionBase):
    """A role's permission to run one agent."""

    allowed = frozenset({"run_this_agent"})
    content_object = models.ForeignKey("threads.Agent", on_delete=models.CASCADE)


class EndUserUserGrant(_Allowed, UserObjectPermissionBase):
    """A principal's permission to act for one end user."""

    allowed = frozenset({"act_for_user"})
    content_object = models.ForeignKey("memory.EndUser", on_delete=models.CASCADE)


class EndUserGroupGrant(_Allowed, GroupObjectPermissionBase):
    """A role's permission to act for one end user."""

    allowed = frozenset({"act_for_user"})
    content_object = models.ForeignKey("memory.EndUser", on_delete=models.CASCADE)


class TeamUserGrant(_Allowed, UserObjectPermissionBase):
    """A principal's permission to see one team's memory."""

    allowed = frozenset({"view_team_memory"})
    content_object = models.ForeignKey("memory.Team", on_delete=models.CASCADE)


class TeamGroupGrant(_Allowed, GroupObjectPermissionBase):
    """A role's permission to see one team's memory."""

    allowed = frozenset({"view_team_memory"})
    content_object = models.ForeignKey("memory.Team", on_delete=models.CASCADE)


class ThreadUserGrant(_Allowed, UserObjectPermissionBase):
    """A principal's permission to see one thread shared with it."""

    allowed = frozenset({"view_shared_thread"})
    content_object = models.ForeignKey("threads.Thread", on_delete=models.CASCADE)


class ThreadGroupGrant(_Allowed, GroupObjectPermissionBase):
    """A role's permission to see one thread shared with it."""

    allowed = frozenset({"view_shared_thread"})
    content_object = models.ForeignKey("threads.Thread", on_delete=models.CASCADE)
