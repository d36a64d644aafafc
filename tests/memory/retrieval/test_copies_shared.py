"""Copies of shelves under threads: bounded, whole versions beside a writer, read once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from django.db import connection, transaction

from memory.retrieval.copies import CopyCache, process_cache
from memory.retrieval.shelf_copy import ShelfCopy, empty_copy
from tests.shelving import assert_equal_to_rows, make_person, only_copy, shelve


def sized(count: int) -> ShelfCopy:
    copy = empty_copy(shelf_id="shelf", model_id=None)
    return replace(copy, words=np.zeros(count, np.uint32))


def test_cache_lets_go_of_what_was_not_used_for_longest() -> None:
    cache = CopyCache(most_bytes=sized(100).nbytes * 2)
    for key in "ab":
        cache.put(key, sized(100))
    assert cache.get("a") is not None
    cache.put("c", sized(100))
    assert cache.get("b") is None
    assert cache.get("a") is not None
    assert cache.nbytes == sized(100).nbytes * 2
    cache.put("d", sized(1_000))
    assert cache.get("d") is None
    assert len(cache) == 2
    cache.put("a", sized(10))
    assert cache.nbytes == sized(100).nbytes + sized(10).nbytes
    cache.drop("a")
    cache.drop("never there")
    cache.clear()
    assert cache.nbytes == 0
    assert len(cache) == 0


def test_cache_holds_its_bound_under_threads() -> None:
    cache = CopyCache(most_bytes=50_000)

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(300):
            key = str(random.integers(12))
            if random.random() < 0.2:
                cache.drop(key)
            else:
                cache.put(key, sized(int(random.integers(1_500))))
            cache.get(key)
            assert cache.nbytes <= cache.most_bytes

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    total = sum(copy.nbytes for key in map(str, range(12)) if (copy := cache.get(key)) is not None)
    assert total == cache.nbytes


def test_readers_beside_a_writer_see_whole_versions(committed_db: None) -> None:
    """No reader has a version without its rows, and none loses a row by reading at a bad moment."""
    person = make_person()
    shelve(person, ["start"])
    is_over = threading.Event()
    batch = 4

    def write() -> None:
        try:
            for place in range(12):
                shelve(person, [f"turn {place} {piece}" for piece in range(batch)])
        finally:
            is_over.set()
            connection.close()

    def read() -> list[tuple[int, int]]:
        seen = []
        try:
            while not is_over.is_set():
                copy = only_copy(person.scope)
                assert len(set(copy.ids.tolist())) == len(copy)
                seen.append((copy.version, len(copy)))
        finally:
            connection.close()
        return seen

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        pool.submit(write).result()
        seen = [pair for reader in readers for pair in reader.result()]
    assert {count for _, count in seen} <= {1 + batch * n for n in range(13)}
    assert {count == 1 + batch * (version - 1) for version, count in seen} == {True}
    assert_equal_to_rows(only_copy(person.scope), person)


def test_uncommitted_write_of_another_is_not_seen_and_then_is(committed_db: None) -> None:
    person = make_person()
    shelve(person, ["one"])
    is_written, may_commit = threading.Event(), threading.Event()

    def write() -> None:
        try:
            with transaction.atomic():
                shelve(person, ["two"])
                is_written.set()
                may_commit.wait(30)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        assert is_written.wait(30)
        assert len(only_copy(person.scope)) == 1
        may_commit.set()
        writing.result()
    assert len(only_copy(person.scope)) == 2


def test_many_threads_want_one_cold_shelf(committed_db: None) -> None:
    person = make_person()
    shelve(person, [f"turn {place}" for place in range(30)])

    def read(_: int) -> int:
        try:
            return len(only_copy(person.scope))
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(read, range(12))) == {30}
    assert len(process_cache()) == 1
