"""Counts of searches and of what they lacked."""

from __future__ import annotations

from memory.retrieval.counts import count_search, counted


def test_every_search_counts_once_and_each_way_it_was_degraded() -> None:
    before = counted()
    count_search(degraded=())
    count_search(degraded=("test_way", "other_way"))
    after = counted()
    assert after["searches"] - before.get("searches", 0) == 2
    assert after["test_way"] - before.get("test_way", 0) == 1
    after["searches"] = 0
    assert counted()["searches"] >= 2
