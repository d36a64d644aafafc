"""Which embedding model a tenant searches by, and whose text a model may see.

The locality rule: what is meant for a local model stays on the host, and another vendor than the
agent's own sees nothing without the consent given once. Models inside this process see everything.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from time import monotonic
from typing import Final

from memory.conf import default_embedding_model
from memory.ids import new_id
from memory.models import EmbeddingModel, EmbeddingStatus
from memory.providers.embeddings.base import EmbedderConfig
from memory.providers.embeddings.registry import embedded_config
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.chat import provider_config
from threads.models import Agent, Locality

OFF: Final = "none"
CACHE_SECONDS: Final = 2.0
_MOST_CACHED: Final = 4096
# An endpoint's model that is told how many dimensions to give bears them in its name.
_DIMENSIONS_MARK: Final = "#"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveModel:
    """A model of a tenant, ready to be asked; `is_switched_off` if its provider is."""

    id: str
    config: EmbedderConfig
    is_switched_off: bool = False


_cache: OrderedDict[str, tuple[float, ActiveModel | None]] = OrderedDict()
_lock = Lock()


def active_model(*, scope: Scope) -> ActiveModel | None:
    """Return the model that the tenant's questions are embedded by, None without vectors.

    Writes nothing: a tenant for which the worker has made no vector yet has none. What is found is
    kept for two seconds. Cost: one query, if any.
    """
    if default_embedding_model() == OFF:
        return None
    key = Scope(tenant_ids=(scope.tenant_id,), principal_id="embeddings").cache_key("model")
    with _lock:
        until, model = _cache.get(key, (0.0, None))
    if monotonic() < until:
        return model
    found = _models(scope, EmbeddingStatus.ACTIVE)
    model = found[0] if found else None
    with _lock:
        _cache[key] = (monotonic() + CACHE_SECONDS, model)
        while len(_cache) > _MOST_CACHED:
            _cache.popitem(last=False)
    return model


def forget_active_models() -> None:
    """Forget what is kept of active models in this process."""
    with _lock:
        _cache.clear()


def models_to_fill(*, scope: Scope) -> tuple[ActiveModel, ...]:
    """Return the models every entry should have a vector of: the active one, then one being built.

    Cost: one query.
    """
    if default_embedding_model() == OFF:
        return ()
    found = _models(scope, EmbeddingStatus.ACTIVE, EmbeddingStatus.BUILDING)
    return tuple(found)


def find_model(*, scope: Scope, model_id: str, status: str) -> ActiveModel | None:
    """Return a model of the tenant if it has that status. Cost: one query."""
    return next((model for model in _models(scope, status) if model.id == model_id), None)


def ensure_default_model(*, scope: Scope, now: datetime) -> None:
    """Give a tenant without a model the instance's default; for the worker, in its transaction.

    Cost: one query; an insert the first time.

    Raises:
        EmbeddingUnavailableError: CREDENCE_EMBEDDING_MODEL names no model that is shipped.
    """
    kind = default_embedding_model()
    in_use = (EmbeddingStatus.ACTIVE, EmbeddingStatus.BUILDING)
    rows = EmbeddingModel.objects.in_scope(scope).filter(status__in=in_use)
    if kind == OFF or rows.exists():
        return
    config = embedded_config(kind)
    model = EmbeddingModel(
        id=new_id("emb"),
        tenant_id=scope.tenant_id,
        kind=kind,
        name=config.name,
        dimensions=config.dimensions,
        status=EmbeddingStatus.ACTIVE,
        created_at=now,
        activated_at=now,
    )
    EmbeddingModel.objects.bulk_create([model], ignore_conflicts=True)


def may_embed(*, agent: Agent, model: ActiveModel) -> bool:
    """Say whether text of this agent may go to the model. Cost: its provider, if not read yet."""
    if model.is_switched_off:
        return False
    endpoint = model.config.endpoint
    if endpoint is None or endpoint.locality == Locality.LOCAL:
        return True
    own = agent.provider
    if own.locality == Locality.LOCAL:
        return False
    is_same_vendor = bool(own.vendor) and own.vendor.lower() == endpoint.vendor.lower()
    return is_same_vendor or agent.cross_vendor_consent_at is not None


def may_embed_for_tenant(*, scope: Scope, model: ActiveModel) -> bool:
    """Say whether text that is no agent's may go to the model: not to a cloud that one may not use.

    Cost: one query, for a cloud's model only.
    """
    if model.is_switched_off:
        return False
    endpoint = model.config.endpoint
    if endpoint is None or endpoint.locality == Locality.LOCAL:
        return True
    with scoped_transaction(scope):
        agents = Agent.objects.in_scope(scope).filter(is_active=True)
        return not agents.filter(provider__locality=Locality.LOCAL).exists()


def stored_name(*, name: str, dimensions: int, asks_dimensions: bool) -> str:
    """Return the name under which an endpoint's model is stored."""
    return f"{name}{_DIMENSIONS_MARK}{dimensions}" if asks_dimensions else name


def _models(scope: Scope, *statuses: str) -> list[ActiveModel]:
    with scoped_transaction(scope):
        rows = EmbeddingModel.objects.in_scope(scope).select_related("provider")
        found = rows.filter(status__in=statuses).order_by("status", "-created_at", "-id")
        return [_of(row) for row in found]


def _of(row: EmbeddingModel) -> ActiveModel:
    name, mark, asked = row.name.rpartition(_DIMENSIONS_MARK)
    asks_dimensions = bool(row.provider) and bool(mark) and asked == str(row.dimensions)
    config = EmbedderConfig(
        kind=row.kind,
        name=name if asks_dimensions else row.name,
        dimensions=row.dimensions,
        endpoint=provider_config(row.provider) if row.provider else None,
        asks_dimensions=asks_dimensions,
    )
    is_switched_off = row.provider is not None and not row.provider.is_active
    return ActiveModel(id=row.pk, config=config, is_switched_off=is_switched_off)
