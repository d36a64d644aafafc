"""Where a lossless thread is cut and which of its nodes are drawn together: arithmetic alone.

Levels never rise from the oldest root to the newest, since it is always the oldest of a level that
become one node of the next. Nothing here reads the database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from governance.policy_rules import Policy
from memory.ledger import target_budget

# Of the target budget, for the texts of all parentless nodes.
_SKELETON_PERCENT: Final = 35
# The levels that must fit beside each other when each holds all that pressure leaves alone. With
# four turns a node and K = 4 they stand for more than a thousand turns.
_LEVELS: Final = 4
_LEAST_NODE_TOKENS: Final = 80
# The last turns, which every prompt shows verbatim (DESIGN 8), whatever policy says of the tail.
_LEAST_TAIL_TURNS: Final = 2
# A chunk of turns that say next to nothing ends here, although its tokens are not there yet.
MOST_CHUNK_TURNS: Final = 400
_MOST_SOURCE_TOKENS: Final = 40_000
_LEAST_SOURCE_TOKENS: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestShape:
    """The numbers that a thread's forest grows by, for one agent.

    Attributes:
        head_turns: How many turns at the start are never compressed.
        tail_turns: How many at the end are not.
        base_turns: The fewest turns of a level-0 node.
        base_tokens: The fewest tokens of them.
        consolidation_k: How many nodes become one of the next level.
        node_tokens: The most a node's text costs.
        skeleton_tokens: What all parentless nodes may cost before they are under pressure.
        source_tokens: The most that is sent to a model to make one node from.
    """

    head_turns: int
    tail_turns: int
    base_turns: int
    base_tokens: int
    consolidation_k: int
    node_tokens: int
    skeleton_tokens: int
    source_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RootSize:
    """What planning knows of a parentless node."""

    level: int
    token_count: int


def forest_shape(*, policy: Policy, context_window: int, max_output_tokens: int) -> ForestShape:
    """Return the numbers for an agent with this window, in turns, nodes and tokens.

    A node is as large as policy says, but never so large that K − 1 nodes on each of four levels,
    the most that pressure leaves alone, cost more than 35% of the target budget (191 tokens in a
    window of 8,192 with K = 4).
    """
    target = target_budget(context_window=context_window, max_output_tokens=max_output_tokens)
    skeleton = max(target, 0) * _SKELETON_PERCENT // 100
    k = policy.count("forest_consolidation_k")
    share = skeleton // (_LEVELS * (k - 1))
    node = min(policy.count("forest_node_tokens"), max(share, _LEAST_NODE_TOKENS))
    room = (context_window - 3 * node) // 2
    return ForestShape(
        head_turns=policy.count("forest_head_turns"),
        tail_turns=max(policy.count("forest_tail_turns"), _LEAST_TAIL_TURNS),
        base_turns=policy.count("forest_base_turns"),
        base_tokens=min(policy.count("forest_base_tokens"), context_window // 4),
        consolidation_k=k,
        node_tokens=node,
        skeleton_tokens=skeleton,
        source_tokens=max(min(room, _MOST_SOURCE_TOKENS), _LEAST_SOURCE_TOKENS),
    )


def chunk_length(*, turn_tokens: Sequence[int], shape: ForestShape) -> int:
    """Return how many of the middle's oldest turns become the next node, 0 if they are too few.

    The shortest run of turns with enough turns and enough tokens; 400 turns are always enough.
    """
    tokens = 0
    for length, cost in enumerate(turn_tokens, start=1):
        tokens += cost
        is_large = length >= shape.base_turns and tokens >= shape.base_tokens
        if is_large or length >= MOST_CHUNK_TURNS:
            return length
    return 0


def next_merge(*, roots: Sequence[RootSize], shape: ForestShape) -> tuple[int, int] | None:
    """Return from which place to which (exclusive) roots become one node, None if they need not.

    First wherever a level holds 2K nodes. Under pressure, when all roots together cost more than
    the skeleton may: on the lowest level with at least K, and if there is none, the lowest with at
    least two, so that the skeleton comes within its room or down to one node a level.

    Args:
        roots: All parentless nodes, oldest first.
        shape: The forest's numbers.
    """
    k = shape.consolidation_k
    levels = _levels(roots)
    is_pressed = sum(root.token_count for root in roots) > shape.skeleton_tokens
    for least in (2 * k, k, 2) if is_pressed else (2 * k,):
        for start, count in levels:
            if count >= least:
                return start, start + min(count, k)
    return None


def _levels(roots: Sequence[RootSize]) -> list[tuple[int, int]]:
    """Return (first place, count) of each level's roots, the lowest level first."""
    found = []
    start = 0
    for level, group in groupby(roots, key=lambda root: root.level):
        count = sum(1 for _ in group)
        found.append((level, start, count))
        start += count
    return [(place, count) for _, place, count in sorted(found)]


def text_limit(*, text_tokens: Sequence[int], most: int) -> int:
    """Return the size to which the largest texts are shortened so that all come within `most`.

    Small texts stay whole; what they leave goes to the large ones. Tokens throughout; at least 1.
    """
    left, waiting = most, len(text_tokens)
    for cost in sorted(text_tokens):
        if cost * waiting > left:
            return max(left // waiting, 1)
        left -= cost
        waiting -= 1
    return max(max(text_tokens, default=1), 1)
