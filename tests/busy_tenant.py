"""A tenant that has been busy for ninety days: every row made by the database, in one go.

For benchmarks of pages and for pictures of them. Written past the triggers, which only a superuser
can. The same size and moment give the same rows, but for what a planner reorders.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import psycopg

DAYS = 90
TURNS = 10  # of each thread
MESSAGES = 10  # of each run

_PEOPLE = """
    INSERT INTO memory_enduser (id, tenant_id, user_id, epoch, created_at)
    SELECT 'usr_' || lpad(n::text, 26, '0'), %(tenant)s, 'person-' || n, 0, %(now)s
    FROM generate_series(1, greatest(%(threads)s / 5, 1)) n
"""
# Later days have more threads, week-ends fewer; a few have one long silence in them.
_THREADS = """
    INSERT INTO threads_thread (id, tenant_id, agent_id, end_user_id, title, status, next_seq,
        run_count, created_at, updated_at)
    SELECT 'th_' || lpad(n::text, 26, '0'), %(tenant)s, (%(agents)s::text[])[1 + n %% %(agent_count)s],
        'usr_' || lpad((1 + n %% greatest(%(threads)s / 5, 1))::text, 26, '0'),
        'Conversation ' || n || ' 关于第 ' || n || ' 个问题', 'active', %(turns)s + 1, %(turns)s,
        CASE WHEN extract(isodow FROM at) > 5 AND random() < .7
            THEN at - interval '2 days' ELSE at END, at
    FROM (
        SELECT n, date_trunc('day', %(now)s::timestamptz)
            - make_interval(days => floor(%(days)s * (1 - sqrt(1 - random() * .98)))::int)
            + make_interval(hours => 8 + floor(random() * 9)::int, mins => floor(random() * 60)::int) AS at
        FROM generate_series(1, %(threads)s) n
    ) started
"""
_RUNS = """
    INSERT INTO threads_run (id, tenant_id, thread_id, agent_id, end_user_id, seq, status, origin,
        input, output, error_code, error_detail, bootstrap, model, input_tokens, output_tokens,
        cost_usd, is_cost_known, context, metadata, key_id, is_time_assumed, turn_tokens,
        message_count, tool_steps, created_at, finished_at)
    SELECT 'run_' || lpad((thread * 100 + seq)::text, 26, '0'), %(tenant)s, thread_id, agent_id,
        end_user_id, seq, status, 'run', repeat('How do I reset router ' || seq || '? ', 6),
        CASE WHEN status = 'succeeded' THEN repeat('Hold the button for ' || seq || ' seconds. ', 30)
            ELSE '' END,
        CASE status WHEN 'failed' THEN (ARRAY['provider_timeout', 'provider_timeout',
            'provider_unavailable', 'interrupted'])[1 + (thread + seq) %% 4]
            WHEN 'rejected' THEN 'context_too_long' END, '', seq = 1, 'model-' || thread %% 3,
        sent, CASE WHEN status = 'succeeded' THEN 180 ELSE 0 END,
        CASE WHEN status = 'succeeded' THEN (sent * 0.15 + 180 * 0.6) / 1000000 ELSE 0 END, true,
        jsonb_build_object('decision', CASE WHEN seq < 6 THEN 'pass' ELSE 'trim' END,
            'current_tokens', 400 + seq * 320, 'prompt_tokens', sent, 'target_budget', 6553,
            'context_window', 8192, 'candidate_count', 18, 'sections', jsonb_build_array(
                jsonb_build_object('name', 'core', 'position', 4, 'priority', 3, 'cap', 800,
                    'wanted', 60, 'granted', 60, 'items', 3, 'dropped', '[]'::jsonb),
                jsonb_build_object('name', 'thread', 'position', 5, 'priority', 4, 'cap', 2000,
                    'wanted', seq * 320, 'granted', least((seq - 1) * 320, 1200), 'items', seq,
                    'dropped', (SELECT jsonb_agg(jsonb_build_object('kind', 'turn', 'id',
                        'run_' || lpad(k::text, 26, '0'), 'tokens', 320, 'reason', 'over_cap'))
                        FROM generate_series(1, seq) k)))),
        '{}', '', false, 320, %(messages)s, '[]', at,
        at + CASE status WHEN 'running' THEN NULL ELSE make_interval(secs =>
            .4 + seq * .02 + 2 * random() * random() * random() + (random() < .03)::int * 6) END
    FROM (
        SELECT thread.number AS thread, thread.id AS thread_id, thread.agent_id, thread.end_user_id, seq,
            400 + least((seq - 1) * 320, 1200) AS sent,
            thread.created_at + make_interval(mins => seq * 7) AS at,
            CASE WHEN lot < .015 + (extract(doy FROM thread.created_at)::int %% 29 = 0)::int * .2
                THEN 'failed' WHEN lot > .995 THEN 'rejected' WHEN lot > .985 THEN 'cancelled'
                ELSE 'succeeded' END AS status
        FROM (SELECT *, right(id, 12)::int AS number FROM threads_thread WHERE tenant_id = %(tenant)s) thread
        CROSS JOIN LATERAL (
            SELECT seq, random() AS lot FROM generate_series(1, %(turns)s) seq WHERE thread.number > 0
        ) turn
    ) made
    WHERE at < %(now)s
"""
_MESSAGES = """
    INSERT INTO threads_message (id, tenant_id, thread_id, run_id, end_user_id, position, role,
        content, tool_calls, pii, token_count, terms, created_at)
    SELECT 'msg_' || lpad((right(id, 14)::bigint * 100 + place)::text, 26, '0'), tenant_id, thread_id,
        id, end_user_id, place, CASE place %% 3 WHEN 0 THEN 'user' WHEN 1 THEN 'assistant' ELSE 'tool' END,
        repeat('Utterance ' || place || ' of a run. ', 5), '[]', '[]', 32, '{1,2,3}', created_at
    FROM threads_run CROSS JOIN generate_series(0, %(messages)s - 1) place
    WHERE tenant_id = %(tenant)s
"""
_OPS = """
    INSERT INTO memory_memoryop (id, tenant_id, end_user_id, thread_id, agent_id, kind, model, outcome,
        input_tokens, output_tokens, cost_usd, at)
    SELECT 'op_' || right(id, 26), tenant_id, end_user_id, thread_id, agent_id, kind, 'model-small', 'ok',
        tokens, 90 + tokens / 9, (tokens * 0.15 + (90 + tokens / 9) * 0.6) / 1000000, at
    FROM (
        SELECT *, coalesce(finished_at, created_at) + interval '20 seconds' AS at,
            (ARRAY['roll_summary', 'extract_core', 'build_nodes', 'consolidate_nodes'])[1 + seq %% 4] AS kind,
            (260 * exp(random() * 4.4) * (.6 + seq %% 4 * .3))::int AS tokens
        FROM threads_run WHERE tenant_id = %(tenant)s AND seq %% 2 = 0 AND status = 'succeeded'
    ) run
"""
_JOBS = """
    INSERT INTO memory_job (id, tenant_id, end_user_id, thread_id, run_id, kind, dedupe_key, lane_key,
        status, attempts, not_before, epoch, error_code, created_at, finished_at)
    SELECT 'job_' || right(id, 26), tenant_id, end_user_id, thread_id, id, 'index_recall', id, 1,
        CASE WHEN place <= 3 THEN 'dead' WHEN place <= 15 THEN 'ready' ELSE 'done' END,
        CASE WHEN place <= 3 THEN 5 WHEN place <= 15 THEN 0 ELSE 1 END, created_at, 1,
        CASE WHEN place <= 3 THEN 'provider_unavailable' ELSE '' END, created_at,
        CASE WHEN place BETWEEN 4 AND 15 THEN NULL ELSE finished_at END
    FROM (
        SELECT *, row_number() OVER (ORDER BY created_at DESC) AS place
        FROM threads_run WHERE tenant_id = %(tenant)s
    ) run
"""
# One run in twenty taught something; one of thirty of those still waits.
_CANDIDATES = """
    INSERT INTO governance_corecandidate (id, tenant_id, end_user_id, fact, subject, fact_key, evidence,
        pii, confidence, status, origin, run_id, tier, flags, seen_count, last_seen_at,
        first_approved_by, decided_by_kind, decided_by_id, decided_at, decided_fact, reason, proposed_by,
        created_at)
    SELECT 'ccand_' || right(id, 26), tenant_id, end_user_id, 'Prefers to be called after ' || seq,
        'phone calls', id, 'Please call me after ' || seq, '[]', random(),
        CASE WHEN right(id, 10)::bigint / 100 %% 30 = 0 THEN 'pending' ELSE 'rejected' END, 'run', id,
        'stated', '[]', 1, created_at, '', '', '',
        CASE WHEN right(id, 10)::bigint / 100 %% 30 = 0 THEN NULL ELSE created_at END, '', '', 'worker',
        created_at
    FROM threads_run WHERE tenant_id = %(tenant)s AND seq IN (4, 8) AND status = 'succeeded'
"""
_TERMS = """
    INSERT INTO governance_entitycandidate (id, tenant_id, entity_type, term, term_key, status, flags,
        evidence_count, first_approved_by, decided_by, decided_at, reason, created_at, updated_at)
    SELECT 'ecand_' || right(id, 26), tenant_id, 'product', 'ARX' || right(id, 6), id,
        CASE WHEN right(id, 10)::bigint / 100 %% 40 = 0 THEN 'pending' ELSE 'rejected' END, '[]', 1, '', '',
        CASE WHEN right(id, 10)::bigint / 100 %% 40 = 0 THEN NULL ELSE created_at END, '', created_at,
        created_at
    FROM threads_run WHERE tenant_id = %(tenant)s AND seq = 6 AND status = 'succeeded'
"""
_ITEMS = """
    INSERT INTO memory_memoryitem (id, tenant_id, end_user_id, role, category, key, key_folded, title,
        content, pii, tier, origin, run_id, status, version, written_by, created_at, updated_at)
    SELECT 'mem_' || right(id, 26), tenant_id, end_user_id, 'default', 'memo', 'k' || right(id, 20),
        'k' || right(id, 20), 'Note ' || right(id, 6), repeat('What was agreed. ', 12), '[]', 'observed',
        'run', id, CASE WHEN right(id, 10)::bigint / 100 %% 60 = 0 THEN 'held' ELSE 'active' END, 1, 'run',
        created_at, created_at
    FROM threads_run WHERE tenant_id = %(tenant)s AND seq IN (3, 5, 7) AND status = 'succeeded'
"""
_AUDIT = """
    INSERT INTO governance_auditentry (id, tenant_id, at, actor, action, target_kind, target_id, detail)
    SELECT 'aud_' || lpad((right(id, 14)::bigint * 10 + place)::text, 26, '0'), tenant_id, created_at,
        'key:test', (ARRAY['run_started', 'run_finished', 'memory_written'])[place], 'run', id, '{}'
    FROM threads_run CROSS JOIN generate_series(1, 3) place WHERE tenant_id = %(tenant)s
"""
_ROWS = (
    _PEOPLE, _THREADS, _RUNS, _MESSAGES, _OPS, _JOBS, _CANDIDATES, _TERMS, _ITEMS, _AUDIT,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Size:
    """How busy it was: ten runs a thread, `messages` a run."""

    threads: int
    messages: int = MESSAGES


def fill(url: str, *, tenant: str, agents: list[str], now: datetime, size: Size) -> None:
    """Give a tenant without rows the rows of ninety days up to `now`, and tell the planner.

    Args:
        url: The superuser's, of the database of the tenant.
        tenant: The tenant's id; only one tenant of a database can be filled.
        agents: Ids of its agents; threads are spread over them.
        now: When the days end.
        size: How much; 10,000 threads are 100,000 runs and a million messages.
    """
    values = {
        "tenant": tenant,
        "agents": agents,
        "agent_count": len(agents),
        "now": now,
        "days": DAYS,
        "threads": size.threads,
        "turns": TURNS,
        "messages": size.messages,
    }
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("SET synchronous_commit = off")
        connection.execute("SELECT setseed(.42)")
        for rows in _ROWS:
            connection.execute(rows, values)
        connection.execute("VACUUM ANALYZE")
