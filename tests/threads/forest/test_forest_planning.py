"""The arithmetic of the forest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governance.policy_rules import effective
from threads.forest.planning import (
    MOST_CHUNK_TURNS,
    ForestShape,
    RootSize,
    chunk_length,
    forest_shape,
    next_merge,
    text_limit,
)


def shape_with(**changes: int) -> ForestShape:
    values = {
        "head_turns": 1,
        "tail_turns": 3,
        "base_turns": 4,
        "base_tokens": 200,
        "consolidation_k": 4,
        "node_tokens": 191,
        "skeleton_tokens": 2293,
        "source_tokens": 3800,
    }
    return ForestShape(**(values | changes))


def grown(costs: list[int], shape: ForestShape) -> tuple[list[tuple[RootSize, int, int]], int]:
    """Add a level-0 node for each cost, merging whenever it is due: (node, first, last), merges."""
    roots: list[tuple[RootSize, int, int]] = []
    merges = 0
    for number, cost in enumerate(costs):
        roots.append((RootSize(level=0, token_count=cost), number, number))
        while merge := next_merge(roots=[root for root, _, _ in roots], shape=shape):
            start, end = merge
            chosen = roots[start:end]
            assert len({root.level for root, _, _ in chosen}) == 1
            node = RootSize(level=chosen[0][0].level + 1, token_count=shape.node_tokens)
            roots[start:end] = [(node, chosen[0][1], chosen[-1][2])]
            merges += 1
    return roots, merges


SHAPES = st.builds(
    shape_with,
    consolidation_k=st.integers(2, 6),
    node_tokens=st.integers(50, 400),
    skeleton_tokens=st.integers(0, 4000),
)


@pytest.mark.req("C07")
@given(costs=st.lists(st.integers(0, 400), max_size=120), shape=SHAPES)
def test_forest_keeps_order_covers_all_and_stays_within_its_room(
    costs: list[int], shape: ForestShape
) -> None:
    roots, merges = grown(costs, shape)
    levels = [root.level for root, _, _ in roots]
    assert levels == sorted(levels, reverse=True)
    places = [place for _, first, last in roots for place in range(first, last + 1)]
    assert places == list(range(len(costs)))
    assert merges < max(len(costs), 1)
    assert all(levels.count(level) < 2 * shape.consolidation_k for level in levels)
    total = sum(root.token_count for root, _, _ in roots)
    assert total <= shape.skeleton_tokens or len(set(levels)) == len(levels)


def test_oldest_k_become_one_at_twice_k_and_not_before() -> None:
    shape = shape_with(skeleton_tokens=100_000)
    one = RootSize(level=0, token_count=100)
    assert next_merge(roots=[one] * 7, shape=shape) is None
    assert next_merge(roots=[one] * 8, shape=shape) == (0, 4)
    high = RootSize(level=1, token_count=100)
    assert next_merge(roots=[high] * 8 + [one] * 3, shape=shape) == (0, 4)
    assert next_merge(roots=[high] * 8 + [one] * 8, shape=shape) == (8, 12)


def test_pressure_merges_the_lowest_level_with_k_then_with_two() -> None:
    shape = shape_with(skeleton_tokens=500)
    low, high = RootSize(level=0, token_count=100), RootSize(level=1, token_count=100)
    assert next_merge(roots=[low] * 5, shape=shape) is None
    assert next_merge(roots=[high] * 4 + [low] * 3, shape=shape) == (0, 4)
    assert next_merge(roots=[high] * 4 + [low] * 4, shape=shape) == (4, 8)
    assert next_merge(roots=[high] * 3 + [low] * 3, shape=shape) == (3, 6)
    top = RootSize(level=2, token_count=900)
    assert next_merge(roots=[top, high, low], shape=shape) is None


@given(
    costs=st.lists(st.integers(0, 300), max_size=80),
    base_turns=st.integers(1, 20),
    base_tokens=st.integers(0, 1000),
)
def test_chunk_is_the_shortest_run_with_enough_turns_and_tokens(
    costs: list[int], base_turns: int, base_tokens: int
) -> None:
    shape = shape_with(base_turns=base_turns, base_tokens=base_tokens)
    length = chunk_length(turn_tokens=costs, shape=shape)

    def is_enough(count: int) -> bool:
        return count >= base_turns and sum(costs[:count]) >= base_tokens

    if length:
        assert is_enough(length)
        assert not is_enough(length - 1)
    else:
        assert not is_enough(len(costs))


def test_chunk_of_turns_that_say_nothing_ends_at_400() -> None:
    assert chunk_length(turn_tokens=[0] * 399, shape=shape_with()) == 0
    assert chunk_length(turn_tokens=[0] * 900, shape=shape_with()) == MOST_CHUNK_TURNS


@given(costs=st.lists(st.integers(0, 50_000), min_size=1, max_size=60), most=st.integers(100, 9000))
def test_text_limit_brings_all_texts_within_the_source(costs: list[int], most: int) -> None:
    limit = text_limit(text_tokens=costs, most=most)
    assert sum(min(cost, limit) for cost in costs) <= most
    if sum(costs) <= most:
        assert limit >= max(costs)


@pytest.mark.req("C07")
@given(
    window=st.integers(1024, 200_000),
    output=st.integers(16, 256),
    k=st.integers(2, 32),
    node=st.integers(50, 4000),
)
def test_node_size_leaves_room_for_four_levels(window: int, output: int, k: int, node: int) -> None:
    policy = effective({"forest_consolidation_k": k, "forest_node_tokens": node}, {})
    shape = forest_shape(policy=policy, context_window=window, max_output_tokens=output)
    assert shape.node_tokens <= node
    assert shape.base_tokens <= window // 4
    assert shape.node_tokens <= 80 or 4 * (k - 1) * shape.node_tokens <= shape.skeleton_tokens
    assert shape.source_tokens + 3 * shape.node_tokens <= window


def test_default_shape_of_an_8k_window() -> None:
    shape = forest_shape(policy=effective({}, {}), context_window=8192, max_output_tokens=512)
    assert (shape.node_tokens, shape.base_tokens, shape.skeleton_tokens) == (191, 2048, 2293)
    roomy = forest_shape(policy=effective({}, {}), context_window=128_000, max_output_tokens=4096)
    assert (roomy.node_tokens, roomy.base_tokens) == (400, 25_000)


def test_last_two_turns_are_never_compressed_whatever_the_tail() -> None:
    policy = effective({"forest_tail_turns": 1}, {})
    shape = forest_shape(policy=policy, context_window=8192, max_output_tokens=512)
    assert shape.tail_turns == 2
