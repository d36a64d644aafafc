"""How the scripted server embeds: vectors that texts with common words share, or any mischief.

A reply of this module looks at the request's `input`; `FakeOpenAI` uses `embed` for /embeddings when
nothing is scripted.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.fakes.openai_replies import Body, Json, Reply, Wire

DIMENSIONS = 32
Vectors = Callable[[Sequence[str]], list[Any]]


def fake_vector(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """A vector that is near for texts with common words, or for Chinese common letters."""
    words = text.lower().split() if text.isascii() else list(text)
    total = [0.0] * dimensions
    for word in words or [text]:
        digest = hashlib.sha256(word.encode()).digest()
        for at in range(dimensions):
            total[at] += digest[at % len(digest)] / 127.5 - 1 + at * 1e-6
    length = math.sqrt(sum(number * number for number in total)) or 1.0
    return [number / length for number in total]


@dataclass(frozen=True, kw_only=True)
class Embeddings:
    """An answer of vectors: good ones, of as many dimensions as asked for, unless `make` says more.

    `count` cuts or pads the list; `reverse` sends it backwards, numbered; `cut` breaks the JSON off.
    """

    dimensions: int = DIMENSIONS
    make: Vectors | None = None
    count: int | None = None
    reverse: bool = False
    cut: bool = False
    delay_seconds: float = 0.0

    async def send(self, wire: Wire) -> None:
        """Answer."""
        if self.delay_seconds:
            await wire.wait(self.delay_seconds)
        content = json.dumps(self._answer(wire.body)).encode()
        await Body(content=content[: len(content) // 2] if self.cut else content).send(wire)

    def _answer(self, body: Json) -> Json:
        texts = list(body.get("input", []))
        size = int(body.get("dimensions", self.dimensions))
        vectors = self.make(texts) if self.make else [fake_vector(text, size) for text in texts]
        if self.count is not None:
            vectors = (vectors * (self.count + 1))[: self.count]
        data = [
            {"object": "embedding", "index": at, "embedding": vector}
            for at, vector in enumerate(vectors)
        ]
        data = data[::-1] if self.reverse else data
        return {"object": "list", "model": body.get("model"), "data": data}


def embed(body: Json) -> Reply:
    """Answer with good vectors."""
    return Embeddings()
