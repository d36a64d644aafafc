"""Learning, per model, how its provider counts tokens, from the usage that answers report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from memory.tokens.composition import Features
from memory.tokens.encodings import encoding_name
from memory.tokens.regression import Evidence, Row

# Weights of `Features.vector()` before anything is learned, and how far a provider may be from
# them: the standard deviation of the prior. A chat format adds 4 tokens a message and 3 before the
# answer (source: OpenAI cookbook, "How to count tokens with tiktoken").
_START: Row = (1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 3)
_SPREAD: Row = (1, 0.7, 0.7, 0.7, 0.7, 0.25, 0.4, 0.3, 0.3, 0.4, 5, 0.3, 10, 60, 30)
_SIZE = len(_START)

# Wide enough for three bytes a token in Chinese and for one token a byte.
_LEAST_SHARE, _MOST_SHARE = 0.3, 4.0
# Beyond these a report says nothing about a tokenizer: a fault, or another unit.
_LEAST_BELIEVED, _MOST_BELIEVED = 0.2, 6.0
_NOISE_SHARE, _NOISE_TOKENS = 0.01, 3

_ALWAYS_LEARNED = 50
_SETTLED_AFTER = 20
_SETTLED_SHARE = 0.03
_TOLERATED_SHARE = 0.02
# The running error remembers about five answers. One false report cannot take it over the share
# at which the provider is thought to count in a new way.
_CHANGED_SHARE = 0.08
_ERROR_MEMORY = 5
_MOST_ERROR = 0.3
_MOST_WEIGHT = 1e6
_MOST_LEARNED = 10**9
_NOTHING = Evidence(size=_SIZE)
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What is known of how one model counts; pure state, a few floats, never any text.

    Attributes:
        encoding: The shipped encoding it starts from; features must be of the same.
        learned_count: Reports it has learned from.
        error_share: Running relative error of its predictions before each report (0 to 1, one
            report counts 0.3 at most); 1 before the first.
        weights: Tokens per unit of each part of `Features.vector()`.
        evidence: What the weights follow from.
    """

    encoding: str
    learned_count: int = 0
    error_share: float = 1.0
    weights: Row = _START
    evidence: Evidence = _NOTHING

    @classmethod
    def start(cls, model: str) -> Fit:
        """Return the fit of a model nobody has heard from: its encoding plus chat framing."""
        return cls(encoding=encoding_name(model))

    @classmethod
    def from_json(cls, state: Mapping[str, Any] | None, *, model: str) -> Fit:
        """Return the fit that `as_json` wrote for `model`; the start where that cannot be read."""
        start = cls.start(model)
        try:
            return _read(state, start.encoding) if state else start
        except (KeyError, TypeError, ValueError, OverflowError):
            return start

    def as_json(self) -> dict[str, Any]:
        """Return the state as JSON, less than 2 KB."""
        return {
            "version": _VERSION,
            "encoding": self.encoding,
            "learned_count": self.learned_count,
            "error_share": round(self.error_share, 4),
            "weights": [round(weight, 5) for weight in self.weights],
            "evidence": self.evidence.packed(),
        }

    @property
    def is_settled(self) -> bool:
        """Say whether predictions can be relied on: 20 reports, the last ones close."""
        return self.learned_count >= _SETTLED_AFTER and self.error_share <= _SETTLED_SHARE

    def predict(self, features: Features) -> int:
        """Return the tokens the provider will count, within 0.3 to 4 times the start's."""
        vector = features.vector()
        start = _dot(_START, vector)
        learned = _dot(self.weights, vector)
        return math.ceil(min(max(learned, _LEAST_SHARE * start), _MOST_SHARE * start) - 0.5)

    def learned(self, features: Features, reported_tokens: int) -> Fit:
        """Return the fit after one report; a report no tokenizer could make changes nothing."""
        vector = features.vector()
        start = _dot(_START, vector)
        if not _LEAST_BELIEVED * start <= reported_tokens <= _MOST_BELIEVED * start:
            return self
        error = min(abs(self.predict(features) - reported_tokens) / reported_tokens, _MOST_ERROR)
        count = self.learned_count + 1
        share = error if count == 1 else self.error_share
        share += (error - share) / min(count, _ERROR_MEMORY)
        noise = _NOISE_TOKENS + _NOISE_SHARE * max(reported_tokens, start)
        row = [value * spread / noise for value, spread in zip(vector, _SPREAD, strict=True)]
        is_off = count > _SETTLED_AFTER and share > _CHANGED_SHARE
        evidence = self.evidence.without_older() if is_off else self.evidence
        evidence, steps = evidence.with_row((*row, (reported_tokens - start) / noise))
        weights = tuple(a + b * c for a, b, c in zip(_START, _SPREAD, steps, strict=True))
        if not all(abs(weight) < _MOST_WEIGHT for weight in weights):
            return Fit(encoding=self.encoding)
        return replace(
            self, learned_count=count, error_share=share, weights=weights, evidence=evidence
        )


def needs_learning(fit: Fit, *, predicted: int, reported: int) -> bool:
    """Say whether a report is worth a write: the first 50 are, later those over 2 % off."""
    if reported <= 0:
        return False
    is_off = abs(predicted - reported) > _TOLERATED_SHARE * reported
    return fit.learned_count < _ALWAYS_LEARNED or is_off


def _read(state: Mapping[str, Any], encoding: str) -> Fit:
    """Return the fit in `state`.

    Raises:
        KeyError: A part is missing.
        TypeError: A part is of another kind.
        ValueError: A part is out of bounds, or of another version or encoding.
    """
    count, share = min(int(state["learned_count"]), _MOST_LEARNED), float(state["error_share"])
    weights = tuple(float(weight) for weight in state["weights"])
    is_ours = state["version"] == _VERSION and state["encoding"] == encoding
    is_whole = len(weights) == _SIZE and all(abs(weight) < _MOST_WEIGHT for weight in weights)
    if not (is_ours and is_whole and count >= 0 and 0 <= share <= 1):
        raise ValueError("not a fit of this model")
    evidence = Evidence.unpacked(state["evidence"], size=_SIZE)
    return Fit(
        encoding=encoding,
        learned_count=count,
        error_share=share,
        weights=weights,
        evidence=evidence,
    )


def _dot(first: Row, second: Row) -> float:
    """Return the sum of the products."""
    return sum(a * b for a, b in zip(first, second, strict=True))
