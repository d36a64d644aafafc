"""The two statements that every run waits for, written by hand: accepting it and storing its answer.

Each does in one round trip what the ORM would do in four: on the machines measured a statement costs
more on its way than in the database (docs/benchmarks.md). Each is all or nothing like any statement.
"""

from __future__ import annotations

from typing import Final

_TAKE_NUMBER: Final = """
        UPDATE threads_thread SET next_seq = next_seq + 1, run_count = run_count + 1,
            title = CASE WHEN title = '' AND next_seq = 1 THEN %(title)s ELSE title END,
            updated_at = greatest(updated_at, %(now)s)
        WHERE tenant_id = %(tenant)s AND id = %(thread)s
        RETURNING next_seq - 1 AS seq, title
"""
_MAKE_THREAD: Final = """
        INSERT INTO threads_thread (id, tenant_id, agent_id, end_user_id, title, status, next_seq,
            run_count, created_at, updated_at)
        VALUES (%(thread)s, %(tenant)s, %(agent)s, %(end_user)s, %(title)s, 'active', 2,
            1, %(now)s, %(now)s)
        RETURNING 1 AS seq, title
"""
_STORE_RUN: Final = """
    ), ran AS (
        INSERT INTO threads_run (id, tenant_id, thread_id, agent_id, end_user_id, seq, status, origin,
            input, output, error_detail, bootstrap, model, input_tokens, output_tokens, cost_usd,
            is_cost_known, context, metadata, key_id, is_time_assumed, turn_tokens, message_count,
            tool_steps, continues_id, created_at, lease_until)
        SELECT %(run)s, %(tenant)s, %(thread)s, %(agent)s, %(end_user)s, seq, 'running', 'run',
            %(input)s, '', '', %(bootstrap)s, '', 0, 0, 0,
            true, %(context)s::jsonb, %(metadata)s::jsonb, %(key)s, false, %(turn_tokens)s, 1,
            '[]', %(continues)s, %(now)s, transaction_timestamp() + make_interval(secs => %(lease_seconds)s)
        FROM taken
    ), said AS (
        INSERT INTO threads_message (id, tenant_id, thread_id, run_id, end_user_id, position, role,
            content, tool_calls, pii, token_count, terms, created_at)
        SELECT %(message)s, %(tenant)s, %(thread)s, %(run)s, %(end_user)s, 0, 'user',
            %(input)s, '[]', %(pii)s::jsonb, %(message_tokens)s, %(terms)s::int[], %(now)s
        FROM taken
    ), traced AS (
        INSERT INTO threads_runtrace (run_id, tenant_id, end_user_id, messages, items, steps,
            created_at)
        SELECT %(run)s, %(tenant)s, %(end_user)s, %(prompt)s::jsonb, %(items)s::jsonb,
            %(steps)s::jsonb, %(now)s
        FROM taken
    )
    SELECT seq, title FROM taken
"""
# The thread comes first: its row lock, or its row; number, run, message and trace hang on that.
ACCEPT: Final = "WITH taken AS (" + _TAKE_NUMBER + _STORE_RUN
ACCEPT_FIRST: Final = "WITH taken AS (" + _MAKE_THREAD + _STORE_RUN

# Numbers further steps on from those a trace has.
_ADDED: Final = """steps || coalesce((
            SELECT jsonb_agg(jsonb_build_object('seq', jsonb_array_length(steps) + place) || step
                ORDER BY place)
            FROM jsonb_array_elements(%(steps)s::jsonb) WITH ORDINALITY AS added (step, place)),
            '[]'::jsonb)
"""
_STORE_ANSWER: Final = """
    WITH ended AS (
        UPDATE threads_run SET status = 'succeeded', output = %(output)s, model = %(model)s,
            input_tokens = %(input_tokens)s, output_tokens = %(output_tokens)s,
            cost_usd = %(cost_usd)s, is_cost_known = %(is_cost_known)s, finished_at = %(now)s,
            lease_until = NULL, turn_tokens = turn_tokens + %(added_tokens)s,
            message_count = message_count + %(position)s, tool_steps = %(tool_steps)s::jsonb
        WHERE tenant_id = %(tenant)s AND id = %(run)s AND status IN ('queued', 'running')
        RETURNING thread_id, end_user_id, seq, turn_tokens, message_count
    ), said AS (
        INSERT INTO threads_message (id, tenant_id, thread_id, run_id, end_user_id, position, role,
            content, tool_calls, pii, token_count, terms, created_at)
        SELECT %(message)s, %(tenant)s, thread_id, %(run)s, end_user_id, %(position)s, 'assistant',
            %(output)s, '[]', %(pii)s::jsonb, %(answer_tokens)s, %(terms)s::int[], %(now)s
        FROM ended
    ), traced AS (
        UPDATE threads_runtrace SET messages = coalesce(%(prompt)s::jsonb, messages), steps =
"""
_OF_THE_ENDED: Final = """
        FROM ended WHERE tenant_id = %(tenant)s AND run_id = %(run)s
    )
    SELECT thread_id, end_user_id, seq, turn_tokens, message_count FROM ended
"""
_TRACE: Final = "UPDATE threads_runtrace SET steps = "
_OF_THE_RUN: Final = "WHERE tenant_id = %(tenant)s AND run_id = %(run)s"
# Nothing happens unless the run is still unfinished: whoever cancels or sweeps it at the same
# moment comes before all of this or after all of it. A prompt of NULL leaves the one accepted.
SUCCEED: Final = _STORE_ANSWER + _ADDED + _OF_THE_ENDED
ADD_STEPS: Final = _TRACE + _ADDED + _OF_THE_RUN
