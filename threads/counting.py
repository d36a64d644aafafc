"""Counting a prompt as its model will: the estimate that is shown, and the bound that decides."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memory.providers.base import ChatMessage, ToolSpec
from memory.tokens import estimate
from memory.tokens.calibration import Fit, needs_learning
from memory.tokens.composition import Features, features


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What one request was made of and how many tokens its provider counted."""

    features: Features
    reported: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """Counts for one model at one provider, by what its answers have taught so far."""

    model: str
    fit: Fit

    @classmethod
    def new(cls, model: str) -> Counter:
        """Return the counter of a model nobody has heard from."""
        return cls(model=model, fit=Fit.start(model))

    def sent(self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = ()) -> int:
        """Return how many tokens the provider will count, as well as is known.

        Cost: about half a millisecond per 1,000 tokens of text not seen lately.
        """
        return self.fit.predict(self._features(messages, tools))

    def bound(self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = ()) -> int:
        """Return the count that is held against a target: never below the real tokenizer's."""
        made_of = self._features(messages, tools)
        return max(self.fit.predict(made_of), Fit.start(self.model).predict(made_of))

    def tool_tokens(self, tools: Sequence[ToolSpec]) -> int:
        """Estimate what offering tools costs."""
        return sum(estimate(text) for text in tool_texts(tools))

    def observed(
        self, messages: Sequence[ChatMessage], *, reported: int, tools: Sequence[ToolSpec] = ()
    ) -> Observation | None:
        """Return what a provider's count teaches; None where it is as expected."""
        made_of = self._features(messages, tools)
        predicted = self.fit.predict(made_of)
        if not needs_learning(self.fit, predicted=predicted, reported=reported):
            return None
        return Observation(features=made_of, reported=reported)

    def _features(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> Features:
        said = [(message.role, message.content) for message in messages]
        calls = [
            ("assistant", call.name + call.arguments)
            for message in messages
            for call in message.tool_calls
        ]
        return features([*said, *calls], model=self.model, extra=tool_texts(tools))


def tool_texts(tools: Sequence[ToolSpec]) -> list[str]:
    """Return the tools as the JSON a provider is sent."""
    return [_as_json(tool) for tool in tools]


def _as_json(tool: ToolSpec) -> str:
    whole: dict[str, Any] = {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.parameters),
        },
    }
    return json.dumps(whole, ensure_ascii=False)
