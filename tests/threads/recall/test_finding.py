"""Finding what is remembered: embedding outside transactions, degradations, scopes that are refused."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.db import connection

from governance.policy_rules import effective
from memory.errors import ScopeError
from memory.providers.embeddings.base import (
    EmbeddingMalformedError,
    EmbeddingTimeoutError,
    EmbeddingUnavailableError,
)
from memory.retrieval.counts import counted
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.factories import NOW, make_agent, make_provider, make_tenant, scope_of
from tests.shelving import Person, make_model, make_person, shelve, toy_vector
from tests.threads.recall.embedders import ToyEmbedder, use_embedder
from threads.recall import finding
from threads.recall.finding import (
    QuestionVector,
    Wanted,
    asked_text,
    embed_question,
    find,
    settings_of,
)

POLICY = effective({"retrieval_limit_ms": 10_000})


def wanted(text: str, **values: Any) -> Wanted:
    options: dict[str, Any] = {"tool": "search", "kinds": ("recall",), "limit": 10} | values
    return Wanted(text=text, **options)


def found(person: Person, text: str, asked: QuestionVector, **values: Any) -> Any:
    with scoped_transaction(person.scope):
        return find(
            scope=person.scope, wanted=wanted(text, **values), asked=asked, policy=POLICY, now=NOW
        )


@pytest.mark.req("B06")
def test_question_is_embedded_with_no_transaction_open(
    committed_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = make_person()
    model = make_model(person.tenant)
    was_open: list[bool] = []
    toy = ToyEmbedder(during=lambda: was_open.append(connection.in_atomic_block))
    use_embedder(monkeypatch, toy)
    asked = embed_question(scope=scope_of(person.tenant), text="数据库备份")
    assert asked.model_id == model.pk
    assert asked.vector is not None
    assert asked.vector.tolist() == toy_vector("数据库备份").tolist()
    assert (was_open, asked.degraded) == ([False], ())


def test_tenant_without_a_model_searches_by_words_and_is_not_degraded(db: None) -> None:
    asked = embed_question(scope=scope_of(make_tenant()), text="备份")
    assert asked == QuestionVector()


@pytest.mark.req("B07")
@pytest.mark.parametrize(
    "error", [EmbeddingUnavailableError(), EmbeddingTimeoutError(), EmbeddingMalformedError()]
)
def test_embedding_that_fails_leaves_keywords_a_trace_a_line_and_a_count(
    db: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Any
) -> None:
    """Down, slow, wrong length."""
    person = make_person()
    ids = shelve(person, ["每日复盘和数据库备份方案"], model=make_model(person.tenant))
    use_embedder(monkeypatch, ToyEmbedder(error=error))
    before = counted().get("embedding_unavailable", 0)
    asked = embed_question(scope=scope_of(person.tenant), text="备份")
    with caplog.at_level(logging.WARNING, logger="credence.retrieval"):
        result = found(person, "备份", asked)
    assert [hit.id for hit in result.hits] == ids
    assert result.trace.degraded == ("embedding_unavailable",)
    assert result.trace.tool == "search"
    assert counted()["embedding_unavailable"] == before + 1
    (line,) = caplog.records
    assert (line.getMessage(), line.code) == ("retrieval_degraded", "embedding_unavailable")  # type: ignore[attr-defined]
    assert "备份" not in str(line.__dict__)


def test_model_that_is_not_installed_so_long_as_configured_degrades(db: None) -> None:
    tenant = make_tenant()
    make_model(tenant, dimensions=7)
    asked = embed_question(scope=scope_of(tenant), text="备份")
    assert asked.degraded == ("embedding_unavailable",)
    assert asked.vector is None


def test_endpoint_that_fails_three_times_rests(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = make_tenant()
    provider = make_provider(
        tenant, kind="openai_compatible", base_url="http://127.0.0.1:9/v1", locality="local"
    )
    make_model(tenant, kind="openai_compatible", provider=provider)
    toy = use_embedder(monkeypatch, ToyEmbedder(error=EmbeddingUnavailableError()))
    seen = [embed_question(scope=scope_of(tenant), text="a").degraded for _ in range(5)]
    assert seen == [("embedding_unavailable",)] * 5
    assert len(toy.asked) == 3


@pytest.mark.req("B07")
def test_text_meant_for_a_local_model_never_goes_to_a_clouds(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = make_tenant()
    cloud = make_provider(
        tenant, kind="openai_compatible", base_url="http://127.0.0.1:9/v1", locality="cloud",
        vendor="acme",
    )  # fmt: skip
    make_model(tenant, kind="openai_compatible", provider=cloud)
    local, remote = make_agent(tenant), make_agent(tenant, cloud)
    toy = use_embedder(monkeypatch, ToyEmbedder())
    scope = scope_of(tenant)
    asked = embed_question(scope=scope, text="private", agent_id=local.pk)
    assert (asked.vector, asked.degraded) == (None, ("embedding_unavailable",))
    assert embed_question(scope=scope, text="nobody's", agent_id="ag_unknown").vector is None
    assert embed_question(scope=scope, text="the tenant's").vector is None
    assert toy.asked == []
    assert embed_question(scope=scope, text="theirs", agent_id=remote.pk).vector is not None
    assert toy.asked == ["theirs"]


def test_meaning_finds_what_shares_no_word(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    person = make_person()
    model = make_model(person.tenant)
    shelve(person, ["The invoice is due on Friday."], model=model)
    asked = QuestionVector(vector=toy_vector("The invoice is due on Friday."), model_id=model.pk)
    result = found(person, "Rechnung", asked)
    assert [hit.content for hit in result.hits] == ["The invoice is due on Friday."]
    assert result.trace.candidates["vector"] >= 1


@pytest.mark.req("B07")
def test_scope_without_a_person_is_refused(db: None) -> None:
    """The sixth degradation: nothing is returned, and whoever asked is refused."""
    person = make_person()
    shelve(person, ["数据库备份"])
    two = Scope(tenant_ids=(person.tenant.pk, make_tenant().pk), principal_id="test")
    for scope in (scope_of(person.tenant), two):
        with scoped_transaction(scope), pytest.raises(ScopeError):
            find(scope=scope, wanted=wanted("备份"), asked=QuestionVector(), policy=POLICY, now=NOW)


def test_very_long_question_is_asked_by_its_two_ends() -> None:
    assert asked_text("短" * 4000) == "短" * 4000
    text = asked_text("始" + "中" * 100_000 + "终")
    assert len(text) <= 4001
    assert text[0] + text[-1] == "始终"


def test_settings_are_the_policys_numbers() -> None:
    settings = settings_of(effective({"half_life_message_days": 3, "credence_stated": 0.7}))
    assert sum(settings.weights.values()) == pytest.approx(1)
    assert settings.half_life_days["message"] == 3
    assert settings.credence["stated"] == 0.7
    assert (settings.exact_rows, settings.limit_ms) == (20_000, 300)


def test_seconds_are_few_so_that_a_slow_endpoint_holds_nobody_up() -> None:
    assert finding.QUERY_SECONDS <= 2
