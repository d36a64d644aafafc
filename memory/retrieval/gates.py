"""The gates after scoring: how many hits, and how many tokens they may cost together. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memory.cutting import BARE_MARK, fit_text
from memory.retrieval.results import Hit
from memory.tokens import estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """What passed, and how much did not: `top_k` and `budget` count hits."""

    hits: tuple[Hit, ...]
    top_k: int
    budget: int
    is_cut: bool


def pass_gates(hits: Sequence[Hit], *, limit: int, most_tokens: int | None) -> Gated:
    """Return the best hits within a number and a budget of tokens, each with what it costs.

    A hit that does not fit makes room for a smaller one behind it. The best one is cut in the
    middle where it alone is larger than the whole budget, so that something is shown.

    Args:
        hits: Best first.
        limit: How many at most.
        most_tokens: What they may cost together; None for any.
    """
    chosen, top_k = list(hits[:limit]), max(0, len(hits) - limit)
    kept: list[Hit] = []
    left, is_cut = most_tokens, False
    for hit in chosen:
        tokens = estimate(hit.content)
        if left is not None and most_tokens is not None and tokens > left:
            cut = None if kept else _cut(hit, most_tokens)
            if cut is None:
                continue
            hit, tokens, is_cut = cut, cut.tokens, True  # noqa: PLW2901 - the same hit, shorter
        kept.append(replace(hit, tokens=tokens))
        left = None if left is None else left - tokens
    return Gated(hits=tuple(kept), top_k=top_k, budget=len(chosen) - len(kept), is_cut=is_cut)


def _cut(hit: Hit, most_tokens: int) -> Hit | None:
    fitted = fit_text(hit.content, most=most_tokens, marks=(BARE_MARK,))
    if fitted is None:
        return None
    return replace(hit, content=fitted.text, tokens=estimate(fitted.text))
