"""Giving the entries of one shelf their vectors: read, embed outside any transaction, write.

Each batch is committed by itself. A text without a good vector is stored as failed and tried again by
later jobs, five times in all; an endpoint that fails as a whole fails the job, which is given back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from memory import jobs
from memory.errors import NotFoundError
from memory.models import Embedding, IndexEntry, Shelf, VectorStatus
from memory.providers.embeddings.base import (
    Embedder,
    EmbeddingRefusedError,
    EmbeddingUnavailableError,
    Failure,
    Vector,
)
from memory.providers.embeddings.registry import embedder
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.store import NewVector, put_vectors
from threads.models import Agent
from threads.recall.models_in_use import ActiveModel, may_embed, may_embed_for_tenant
from threads.recall.texts import EntryText, entry_texts

MOST_ATTEMPTS: Final = 5
NOT_ALLOWED: Final = "embedding_not_allowed"
_CALL_SECONDS: Final = 30.0
_FIRST_BATCH: Final = 16
_LARGEST_BATCH: Final = 128
_QUICK_SECONDS: Final = 2.0
_SLOW_SECONDS: Final = 8.0
_REFUSALS_IN_A_ROW: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """Entries in the order of their place on the shelf, with those texts the model may not see."""

    texts: dict[str, EntryText]
    forbidden: frozenset[str]
    last: tuple[int, str] | None
    is_last: bool


def fill_shelf(
    *, scope: Scope, claim: jobs.Claim, shelf_id: str, model: ActiveModel, until: float
) -> bool:
    """Embed what a shelf lacks of one model; say whether that was all, or the time was up.

    Each entry is tried once. Cost: a query, the model's time and five statements a batch.

    Args:
        scope: May see the shelf.
        claim: The job that is held while writing.
        shelf_id: The shelf.
        model: The model.
        until: When to begin no further batch, by the monotonic clock.

    Raises:
        EmbeddingError: The model gave no answer at all, or takes no text.
        LeaseLostError: The job was claimed again; that claim goes on instead.
    """
    size, before = _FIRST_BATCH, None
    while monotonic() < until:
        batch = _read(scope, shelf_id, model, before, size)
        began = monotonic()
        vectors = _embedded(model, batch)
        took = monotonic() - began
        if not _store(scope, claim, shelf_id, model, vectors):
            return True
        if len(vectors) < len(batch.texts):
            raise EmbeddingRefusedError("The embedding model refuses one text after the other.")
        if batch.is_last:
            return True
        before = batch.last
        if took < _QUICK_SECONDS:
            size = min(size * 2, _LARGEST_BATCH)
        elif took > _SLOW_SECONDS:
            size = max(size // 2, 1)
    return False


def next_shelf(*, scope: Scope, model: ActiveModel, after: str) -> str | None:
    """Return the next shelf that lacks a vector of the model, by id. Cost: one query.

    Inside the caller's scoped transaction.
    """
    rows = shelves_lacking(scope=scope, model_id=model.id).filter(pk__gt=after)
    return rows.order_by("pk").values_list("pk", flat=True).first()


def shelves_lacking(*, scope: Scope, model_id: str) -> ScopedQuerySet[Shelf]:
    """Return the query of shelves with an entry that lacks a vector of the model."""
    lacking = _lacking(scope, model_id).filter(shelf_id=OuterRef("pk"))
    return Shelf.objects.in_scope(scope).filter(Exists(lacking))


def _lacking(scope: Scope, model_id: str) -> ScopedQuerySet[IndexEntry]:
    """Return the entries that have neither a vector of the model nor failed for good."""
    settled = (
        Q(status=VectorStatus.READY) | Q(attempts__gte=MOST_ATTEMPTS) | Q(error_code=NOT_ALLOWED)
    )
    rows = Embedding.objects.in_scope(scope).filter(settled, model_id=model_id)
    done = rows.filter(entry_id=OuterRef("pk"))
    return IndexEntry.objects.in_scope(scope).filter(~Exists(done))


def _read(
    scope: Scope, shelf_id: str, model: ActiveModel, before: tuple[int, str] | None, size: int
) -> _Batch:
    """Return the newest entries that lack a vector, before those already tried."""
    with scoped_transaction(scope):
        rows = _lacking(scope, model.id).filter(shelf_id=shelf_id)
        if before is not None:
            version, entry_id = before
            rows = rows.filter(Q(version__lt=version) | Q(version=version, pk__lt=entry_id))
        places = list(rows.order_by("-version", "-pk").values_list("version", "pk")[:size])
        texts = entry_texts(scope=scope, entry_ids=[pk for _, pk in places])
        return _Batch(
            texts=texts,
            forbidden=_forbidden(scope, texts, model),
            last=places[-1] if places else None,
            is_last=len(places) < size,
        )


def _forbidden(scope: Scope, texts: dict[str, EntryText], model: ActiveModel) -> frozenset[str]:
    """Return the entries whose text the locality rule keeps from the model."""
    if model.config.endpoint is None:
        return frozenset()
    agent_ids = {text.agent_id for text in texts.values() if text.agent_id}
    rows = Agent.objects.in_scope(scope).filter(pk__in=agent_ids).select_related("provider")
    allowed = {agent.pk for agent in rows if may_embed(agent=agent, model=model)}
    is_tenants_allowed = may_embed_for_tenant(scope=scope, model=model)
    return frozenset(
        entry_id
        for entry_id, text in texts.items()
        if not (text.agent_id in allowed if text.agent_id else is_tenants_allowed)
    )


def _embedded(model: ActiveModel, batch: _Batch) -> list[NewVector]:
    if model.is_switched_off:
        raise EmbeddingUnavailableError("The provider of the embedding model is switched off.")
    asked = [entry_id for entry_id in batch.texts if entry_id not in batch.forbidden]
    found = [
        NewVector(entry_id=entry_id, vector=None, error_code=NOT_ALLOWED)
        for entry_id in batch.forbidden
    ]
    if asked:
        texts = [batch.texts[entry_id].text for entry_id in asked]
        results = _results(embedder(model.config), texts)
        found += [_new(entry_id, one) for entry_id, one in zip(asked, results, strict=False)]
    return found


def _results(model: Embedder, texts: Sequence[str]) -> list[Vector | Failure]:
    """Return one result a text; a batch that is refused is sent text by text.

    After three refusals in a row the rest has none: it does not seem to be the texts' fault.
    """
    try:
        return model.passages(texts, seconds=_CALL_SECONDS)
    except EmbeddingRefusedError as error:
        refused = Failure(code=error.code)
        if len(texts) == 1:
            return [refused]
    found: list[Vector | Failure] = []
    refusals = 0
    for text in texts:
        result = _results(model, [text])[0]
        found.append(result)
        refusals = refusals + 1 if isinstance(result, Failure) and result == refused else 0
        if refusals == _REFUSALS_IN_A_ROW:
            break
    return found


def _new(entry_id: str, result: Vector | Failure) -> NewVector:
    if isinstance(result, Failure):
        return NewVector(entry_id=entry_id, vector=None, error_code=result.code)
    return NewVector(entry_id=entry_id, vector=result)


def _store(
    scope: Scope,
    claim: jobs.Claim,
    shelf_id: str,
    model: ActiveModel,
    vectors: Sequence[NewVector],
) -> bool:
    """Write a batch; False if shelf or model is gone."""
    if not vectors:
        return True
    with scoped_transaction(scope):
        jobs.hold(scope=scope, claim=claim)
        try:
            put_vectors(
                scope=scope,
                shelf_id=shelf_id,
                model_id=model.id,
                vectors=vectors,
                now=timezone.now(),
            )
        except NotFoundError:
            return False
    return True
