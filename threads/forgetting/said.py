"""Masking what was said: messages, runs, titles, traces, artefacts; kept answers go."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from governance.pii import pii_tags
from memory.retrieval.words import message_terms
from memory.tokens import estimate
from threads.forgetting import texts
from threads.forgetting.masking import fitted
from threads.forgetting.texts import Pass, Texts
from threads.history import turn_tokens
from threads.models import IdempotencyRecord, Message, Run
from threads.tool_rounds import steps_tokens

_PLAIN = (
    ("run_traces", texts.RUN_TRACES),
    ("context_traces", texts.CONTEXT_TRACES),
    ("artifacts", texts.ARTIFACTS),
)


def mask_said(going: Pass) -> Counter[str]:
    """Mask all that a person and their agents said; return how many rows of what changed.

    Inside the caller's scoped transaction. Cost: one statement a changed row.
    """
    counts: Counter[str] = Counter()
    for row in going.rows(texts.MESSAGES):
        counts["messages"] += _message(going, row)
    for row in going.rows(texts.RUNS):
        counts["runs"] += _run(going, row)
    for row in going.rows(texts.THREADS):
        changes = going.changes(texts.THREADS, row)
        if changes:
            _save(row, {"title": fitted(changes["title"], 200)})
            counts["threads"] += 1
    for name, kind in _PLAIN:
        counts[name] += sum(_plain(going, kind, row) for row in going.rows(kind))
    counts["kept_answers"] += _forget_answers(going)
    return counts


def _message(going: Pass, row: Message) -> bool:
    changes = going.changes(texts.MESSAGES, row)
    if not changes:
        return False
    for name in ("name", "speaker"):
        if name in changes:
            changes[name] = fitted(changes[name], 200)
    if "content" in changes:
        changes["pii"] = pii_tags(changes["content"])
        changes["terms"] = message_terms(changes["content"])
        changes["token_count"] = estimate(changes["content"])
    _save(row, changes)
    going.changed_runs.add(row.run_id)
    going.changed_threads.add(row.thread_id)
    return True


def _run(going: Pass, row: Run) -> bool:
    changes = going.changes(texts.RUNS, row)
    if not changes:
        return False
    if "error_detail" in changes:
        changes["error_detail"] = fitted(changes["error_detail"], 500)
    said, answered = changes.get("input", row.input), changes.get("output", row.output)
    steps = changes.get("tool_steps", row.tool_steps)
    tokens = turn_tokens(input_text=said, output_text=answered)
    changes["turn_tokens"] = tokens + steps_tokens(steps)
    _save(row, changes)
    going.changed_runs.add(row.pk)
    going.changed_threads.add(row.thread_id)
    return True


def _plain(going: Pass, kind: Texts, row: Any) -> bool:
    changes = going.changes(kind, row)
    if not changes:
        return False
    if "content" in changes:  # an artefact's
        changes["bytes"] = len(changes["content"].encode())
    if "name" in changes:
        # Two of one run may not be named alike.
        changes["name"] = f"{fitted(changes['name'], 150)}-{row.pk[-8:]}"
    _save(row, changes)
    return True


def _forget_answers(going: Pass) -> int:
    """Delete the kept answers of the person that hold something of what must go."""
    rows = IdempotencyRecord.objects.in_scope(going.scope).filter(end_user_id=going.person_id)
    if going.before_at is not None:
        rows = rows.filter(created_at__lt=going.before_at)
    stale = [pk for pk, body in rows.values_list("pk", "body") if _is_stale(going, body)]
    return rows.filter(pk__in=stale).delete()[0]


def _is_stale(going: Pass, body: str) -> bool:
    try:
        value = json.loads(body)
    except ValueError:
        value = body
    return going.mask.masked_json(value) != value or going.mask.masked(body) != body


def _save(row: Any, changes: dict[str, Any]) -> None:
    for name, value in changes.items():
        setattr(row, name, value)
    row.save(update_fields=list(changes))
