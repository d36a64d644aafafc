"""Many people's shelves for benchmarks: one person's rows made here, the others' copied in the database.

Written past the triggers (rows of runs are left out), which only a superuser can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random

import numpy as np
import psycopg

from memory.retrieval.codes import code_of
from memory.retrieval.records import Described, pack
from memory.retrieval.words import words_of
from tests.factories import NOW

_POOL = """
    CREATE TABLE IF NOT EXISTS bench_pool (n int PRIMARY KEY, said text, terms text[], packed bytea,
        vector halfvec, code bytea, said_at timestamptz)
"""
_USERS = """
    INSERT INTO memory_enduser (id, tenant_id, user_id, epoch, created_at)
    SELECT 'usr_' || lpad(u::text, 26, '0'), %(tenant)s, %(prefix)s || u, 0, now()
    FROM generate_series(%(first)s::int, %(last)s::int) u
"""
_SHELVES = """
    INSERT INTO memory_shelf (id, tenant_id, end_user_id, version, generation)
    SELECT 'shelf_' || lpad(u::text, 26, '0'), %(tenant)s, 'usr_' || lpad(u::text, 26, '0'), 2, 0
    FROM generate_series(%(first)s::int, %(last)s::int) u
"""
_EACH = """
    FROM generate_series(%(first)s::int, %(last)s::int) u
    CROSS JOIN (SELECT * FROM bench_pool ORDER BY n LIMIT %(each)s) pool
"""
_RECALLS = """
    INSERT INTO memory_recallentry (id, tenant_id, end_user_id, thread_id, run_id, agent_id, role,
        said, answered, tier, said_at, created_at)
    SELECT 'rec_' || lpad((u * 10000 + n)::text, 26, '0'), %(tenant)s,
        'usr_' || lpad(u::text, 26, '0'), 'th_1', 'run_' || (u * 10000 + n), 'agt_1', '', said, '',
        'observed', said_at, now()
"""
_ENTRIES = """
    INSERT INTO memory_indexentry (id, tenant_id, end_user_id, shelf_id, kind, role, recall_id,
        version, packed, tier, uses, as_of, created_at)
    SELECT 'idx_' || lpad((u * 10000 + n)::text, 26, '0'), %(tenant)s,
        'usr_' || lpad(u::text, 26, '0'), 'shelf_' || lpad(u::text, 26, '0'), 'recall', '',
        'rec_' || lpad((u * 10000 + n)::text, 26, '0'), 1, packed, 'observed', 0, said_at, now()
"""
_VECTORS = """
    INSERT INTO memory_embedding (id, tenant_id, end_user_id, entry_id, model_id, status, vector,
        code, attempts, error_code, version, updated_at)
    SELECT 'vec_' || lpad((u * 10000 + n)::text, 26, '0'), %(tenant)s,
        'usr_' || lpad(u::text, 26, '0'), 'idx_' || lpad((u * 10000 + n)::text, 26, '0'),
        %(model)s, 'ready', vector, code, 1, '', 2, now()
"""
PLAIN = """
    CREATE TABLE IF NOT EXISTS bench_plain (id text PRIMARY KEY, tenant_id text NOT NULL,
        end_user_id text NOT NULL, said text, terms tsvector, vector halfvec(512));
"""
PLAIN_ROWS = (
    """
    INSERT INTO bench_plain SELECT 'rec_' || lpad((u * 10000 + n)::text, 26, '0'), %(tenant)s,
        'usr_' || lpad(u::text, 26, '0'), said, array_to_tsvector(terms), vector::halfvec(512)
"""
    + _EACH
)


@dataclass(frozen=True)
class Pool:
    """What every person said, and the vectors of it."""

    texts: Sequence[str]
    vectors: np.ndarray


def make_pool(url: str, *, count: int, dimensions: int = 512) -> Pool:
    """Write `count` turns of 8 to 25 words of a vocabulary as it is in language."""
    random, numbers = Random(7), np.random.default_rng(7)
    vocabulary = [f"word{place}" for place in range(8_000)]
    weights = [1 / (place + 3) for place in range(len(vocabulary))]
    texts = [
        " ".join(random.choices(vocabulary, weights, k=random.randint(8, 25))) for _ in range(count)
    ]
    vectors = numbers.normal(size=(count, dimensions)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    drop_pool(url)
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(_POOL)
        with cursor.copy("COPY bench_pool FROM STDIN") as copy:
            for place, (text, vector) in enumerate(zip(texts, vectors, strict=True)):
                at = NOW - timedelta(minutes=7 * place)
                described = Described(
                    kind="recall", text=text, session=f"th_{place // 20}", place=place, said_at=at
                )
                listed = "[" + ",".join(f"{x:.5g}" for x in vector.tolist()) + "]"
                terms = sorted(set(words_of(text)))
                copy.write_row((place, text, terms, pack(described), listed, code_of(vector), at))
    return Pool(texts=texts, vectors=vectors)


def drop_pool(url: str) -> None:
    """Take the pool away again: the suite's database has no table that is not the product's."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS bench_pool, bench_plain")


def fill(url: str, *, tenant: str, model: str, first: int, people: int, each: int) -> None:
    """Give people `first` … the pool's first `each` turns, indexed and embedded."""
    values = {
        "tenant": tenant,
        "model": model,
        "first": first,
        "last": first + people - 1,
        "each": each,
        "prefix": "bench-",
    }
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("SET synchronous_commit = off")
        connection.execute(_USERS, values)
        connection.execute(_SHELVES, values)
        for rows in (_RECALLS, _ENTRIES, _VECTORS):
            connection.execute(rows + _EACH, values)
        connection.execute("VACUUM ANALYZE")


def person_id(number: int) -> str:
    """The id of a person that `fill` made."""
    return f"usr_{number:026}"
