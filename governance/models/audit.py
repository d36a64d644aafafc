"""The audit log, what models were shown, and the chain that seals both; never changed."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, Walls, id_field, tenant_unique


class AuditEntry(TenantModel):
    """Who did what to which object. Internal ids, counts and hashes only, never text.

    A trigger and the grants refuse UPDATE, DELETE and TRUNCATE to every role of the product.
    `target_id` is no foreign key on purpose: auditing never blocks deleting.
    """

    is_append_only = True
    kept = frozenset("id tenant at actor action target_kind target_id detail".split())

    id = id_field("aud")
    at = models.DateTimeField(default=timezone.now)
    actor = models.CharField(max_length=80)
    action = models.CharField(max_length=64)
    target_kind = models.CharField(max_length=32)
    target_id = models.CharField(max_length=64)
    detail = models.JSONField(default=dict)

    class Meta:
        verbose_name_plural = "audit entries"
        constraints = [tenant_unique("auditentry")]
        indexes = [models.Index(fields=["tenant", "at", "id"], name="auditentry_tenant_at_idx")]


class DisclosureKind(models.TextChoices):
    """How items came before a model, or before whoever calls models himself."""

    RUN = "run"
    TOOL = "tool"
    CONTEXT = "context"


class Disclosure(TenantModel):
    """Which items one run, or one assembled context, showed to which model under which key.

    Ids only, so that it outlives items and persons: from a bad or an erased item the answers that
    used it can be listed. `run_id` is the trace's id where a context was only assembled; none of
    its ids is a foreign key, on purpose.
    """

    walls = Walls(user="subject_id")
    is_append_only = True
    kept = frozenset(
        "id tenant at kind subject_id run_id thread_id agent_id key_id provider_id model"
        " item_ids".split()
    )

    id = id_field("disc")
    at = models.DateTimeField(default=timezone.now)
    kind = models.CharField(max_length=8, choices=DisclosureKind.choices)
    subject_id = models.CharField(max_length=40, null=True, help_text="The person's `usr_` id.")
    run_id = models.CharField(max_length=40)
    thread_id = models.CharField(max_length=40, null=True)
    agent_id = models.CharField(max_length=40)
    key_id = models.CharField(max_length=80, blank=True, default="")
    provider_id = models.CharField(max_length=40, blank=True, default="")
    model = models.CharField(max_length=200, blank=True, default="")
    item_ids = ArrayField(models.CharField(max_length=64), default=list)

    class Meta:
        constraints = [
            tenant_unique("disclosure"),
            models.CheckConstraint(
                condition=models.Q(kind__in=DisclosureKind.values), name="disclosure_kind_valid"
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "run_id"], name="disclosure_run_idx"),
            models.Index(fields=["tenant", "subject_id", "at"], name="disclosure_person_idx"),
            models.Index(fields=["tenant", "at"], name="disclosure_tenant_at_idx"),
        ]


class AuditSeal(TenantModel):
    """One link of a tenant's chain: the Merkle root over some entries, bound to the link before.

    `seq` counts from 1 without a gap; `previous_hash` is empty for the first.
    """

    is_append_only = True
    kept = frozenset("id tenant seq entries root previous_hash hash sealed_at".split())

    id = id_field("seal")
    seq = models.PositiveBigIntegerField()
    entries = models.PositiveIntegerField()
    root = models.CharField(max_length=64)
    previous_hash = models.CharField(max_length=64, blank=True)
    hash = models.CharField(max_length=64)
    sealed_at = models.DateTimeField()

    class Meta:
        constraints = [
            tenant_unique("auditseal"),
            models.UniqueConstraint(fields=["tenant", "seq"], name="auditseal_seq_uniq"),
            models.CheckConstraint(
                condition=models.Q(seq__gte=1, entries__gte=1), name="auditseal_counts_from_one"
            ),
        ]


class AuditLeaf(TenantModel):
    """That a row of the audit log or a disclosure is sealed, where, and its hash at that time.

    Its id is the sealed row's own.
    """

    is_append_only = True
    kept = frozenset("id tenant seal position leaf_hash".split())

    id = models.CharField(primary_key=True, max_length=40)
    seal = models.ForeignKey(AuditSeal, on_delete=models.CASCADE, related_name="leaves")
    position = models.PositiveIntegerField()
    leaf_hash = models.CharField(max_length=64)

    class Meta:
        constraints = [
            tenant_unique("auditleaf"),
            models.UniqueConstraint(
                fields=["tenant", "seal", "position"], name="auditleaf_position_uniq"
            ),
        ]


class AuditPending(TenantModel):
    """The id of a row that waits for its seal; a trigger writes it, the sealer takes it away."""

    kept = frozenset("id tenant".split())

    id = models.CharField(primary_key=True, max_length=40)

    class Meta:
        constraints = [tenant_unique("auditpending")]
