"""Tenants, their end users and teams."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, Walls, id_field, tenant_unique
from memory.querysets import ScopedManager


class TenantStatus(models.TextChoices):
    """Whether a tenant's keys are served; of one that has ended only records are left."""

    ACTIVE = "active"
    SUSPENDED = "suspended"
    ENDED = "ended"


class Tenant(models.Model):
    """A customer organisation; the strongest boundary."""

    walls = Walls(tenant="id")
    personal: frozenset[str] = frozenset()
    kept = frozenset({"id", "slug", "name", "status", "created_at"})

    id = id_field("tn")
    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=200)
    status = models.CharField(
        max_length=16, choices=TenantStatus.choices, default=TenantStatus.ACTIVE
    )
    created_at = models.DateTimeField(default=timezone.now)

    objects = ScopedManager()

    class Meta:
        permissions = [
            ("use_tenant", "May act inside the tenant at all"),
            ("act_for", "May act for any end user of the tenant"),
            ("run_agent", "May run any agent of the tenant"),
            ("approve", "May approve or reject candidates"),
            ("confirm", "May confirm core facts"),
            ("manage_policy", "May change agents, providers, keys and policy"),
            ("export", "May export persons"),
            ("erase", "May erase persons"),
            ("view_audit", "May read the audit log"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(status__in=TenantStatus.values), name="tenant_status_valid"
            )
        ]

    def __str__(self) -> str:
        return self.slug


class EndUser(TenantModel):
    """A person the tenant serves, known by the tenant's own `user_id`; created on first write.

    An erasure first sets `erasing_at` and takes the `user_id` away, so that nobody finds the person
    any more, and at its end deletes this row: from then on the database refuses whatever names it.
    """

    walls = Walls(user="id")
    personal = frozenset({"user_id"})
    kept = frozenset({"id", "tenant", "epoch", "created_at", "erasing_at"})

    id = id_field("usr")
    user_id = models.CharField(max_length=255)
    epoch = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now)
    erasing_at = models.DateTimeField(null=True)

    class Meta:
        permissions = [("act_for_user", "May act for this end user")]
        constraints = [
            tenant_unique("enduser"),
            models.UniqueConstraint(fields=["tenant", "user_id"], name="enduser_user_id_uniq"),
        ]


class Team(TenantModel):
    """End users of one tenant who share team memory."""

    kept = frozenset({"id", "tenant", "name", "created_at"})

    id = id_field("team")
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        permissions = [("view_team_memory", "May see this team's memory")]
        constraints = [
            tenant_unique("team"),
            models.UniqueConstraint(fields=["tenant", "name"], name="team_name_uniq"),
        ]


class TeamMember(TenantModel):
    """One end user's membership in one team."""

    walls = Walls(user="end_user_id")
    kept = frozenset({"id", "tenant", "team", "end_user"})

    id = id_field("tmem")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="members")
    end_user = models.ForeignKey(EndUser, on_delete=models.CASCADE, related_name="memberships")

    class Meta:
        constraints = [
            tenant_unique("teammember"),
            models.UniqueConstraint(fields=["tenant", "team", "end_user"], name="teammember_uniq"),
        ]
