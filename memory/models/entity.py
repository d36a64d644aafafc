"""Entities: the terms of a tenant's vocabulary, each with a weight that rises and falls."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, Walls, id_field, tenant_unique


class EntityStatus(models.TextChoices):
    """Whether an entity takes part; a merged one lives on in another."""

    ACTIVE = "active"
    RETIRED = "retired"
    MERGED = "merged"


class Entity(TenantModel):
    """One approved term. `term_key` is the term folded: the same name is the same entity."""

    personal = frozenset({"term", "term_key", "aliases"})
    kept = frozenset(
        "id tenant entity_type candidate weight status merged_into last_hit_at last_decayed_at approved_at"
        " approved_by created_at updated_at".split()
    )

    id = id_field("ent")
    entity_type = models.CharField(max_length=40)
    term = models.CharField(max_length=120)
    term_key = models.CharField(max_length=240)
    aliases = ArrayField(models.CharField(max_length=120), default=list, blank=True)
    candidate = models.ForeignKey(
        "governance.EntityCandidate", on_delete=models.SET_NULL, null=True, related_name="+"
    )
    weight = models.FloatField(default=1.0)
    status = models.CharField(
        max_length=16, choices=EntityStatus.choices, default=EntityStatus.ACTIVE
    )
    merged_into = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="+")
    last_hit_at = models.DateTimeField(null=True)
    last_decayed_at = models.DateTimeField(null=True)
    approved_at = models.DateTimeField()
    approved_by = models.CharField(max_length=80)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name_plural = "entities"
        constraints = [
            tenant_unique("entity"),
            models.UniqueConstraint(
                fields=["tenant", "entity_type", "term_key"], name="entity_term_uniq"
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=EntityStatus.values), name="entity_status_valid"
            ),
            models.CheckConstraint(
                condition=models.Q(weight__gt=0, weight__lte=100), name="entity_weight_bounds"
            ),
            models.CheckConstraint(
                condition=models.Q(status="merged", merged_into__isnull=False)
                | (~models.Q(status="merged") & models.Q(merged_into__isnull=True)),
                name="entity_merged_into_one",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "status", "term_key"], name="entity_terms_idx"),
        ]


class EntityEvent(TenantModel):
    """One change of an entity: approved, hit, decayed, edited, merged, unmerged, retired.

    A person raises an entity's weight once a day at most: `day` is null for anything but a hit.
    """

    walls = Walls(user="end_user_id")
    kept = frozenset(
        "id tenant end_user entity kind weight_before weight_after day run by at other".split()
    )

    id = id_field("eev")
    entity = models.ForeignKey(Entity, on_delete=models.CASCADE, related_name="events")
    end_user = models.ForeignKey(
        "memory.EndUser", on_delete=models.CASCADE, null=True, related_name="+"
    )
    run = models.ForeignKey("threads.Run", on_delete=models.CASCADE, null=True, related_name="+")
    kind = models.CharField(max_length=16)
    weight_before = models.FloatField()
    weight_after = models.FloatField()
    day = models.DateField(null=True)
    by = models.CharField(max_length=80)
    other = models.CharField(max_length=40, blank=True, default="", help_text="The other entity.")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            tenant_unique("entityevent"),
            models.UniqueConstraint(
                fields=["tenant", "entity", "end_user", "day"],
                condition=models.Q(kind="hit"),
                name="entityevent_hit_once_a_day",
            ),
            models.CheckConstraint(
                condition=models.Q(
                    kind__in="approved hit decayed edited merged unmerged retired".split()
                ),
                name="entityevent_kind_valid",
            ),
            models.CheckConstraint(
                condition=~models.Q(kind="hit")
                | models.Q(end_user__isnull=False, day__isnull=False),
                name="entityevent_hit_has_day",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "entity", "-at"], name="entityevent_entity_idx"),
        ]


class MergeStatus(models.TextChoices):
    """Where a merge of two entities stands."""

    PROPOSED = "proposed"
    MERGED = "merged"
    REFUSED = "refused"
    UNDONE = "undone"


class EntityMerge(TenantModel):
    """Two entities that may be one; merging keeps what it takes to undo it.

    `before` holds the target's aliases and weight as they were.
    """

    personal = frozenset({"before"})
    kept = frozenset(
        "id tenant source target score status before_weight decided_by decided_at created_at"
        "".split()
    )

    id = id_field("emrg")
    source = models.ForeignKey(Entity, on_delete=models.CASCADE, related_name="+")
    target = models.ForeignKey(Entity, on_delete=models.CASCADE, related_name="+")
    score = models.FloatField()
    status = models.CharField(
        max_length=16, choices=MergeStatus.choices, default=MergeStatus.PROPOSED
    )
    before = models.JSONField(default=dict)
    before_weight = models.FloatField(null=True)
    decided_by = models.CharField(max_length=80, blank=True, default="")
    decided_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            tenant_unique("entitymerge"),
            models.UniqueConstraint(
                fields=["tenant", "source", "target"],
                condition=models.Q(status__in=["proposed", "merged", "refused"]),
                name="entitymerge_pair_uniq",
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=MergeStatus.values), name="entitymerge_status_valid"
            ),
            models.CheckConstraint(
                condition=~models.Q(source=models.F("target")), name="entitymerge_of_two"
            ),
        ]
