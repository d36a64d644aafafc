"""Making anew what was derived: dropped first, then asked for, of a whole thread or some turns.

Only what nobody decided goes: the rolling summary, nodes, recall entries with their vectors, and
candidates that still wait. Inside the caller's transaction, in the person's scope.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from governance.models import CandidateStatus, CoreCandidate, Extraction
from governance.policy import policy_for
from memory import jobs
from memory.scope import Scope
from threads.forgetting import derived
from threads.learning.extraction import extract_job
from threads.models import Run, RunStatus


def drop_derived(
    *, scope: Scope, thread_id: str, run_ids: Sequence[str] | None, now: datetime
) -> Mapping[str, int]:
    """Drop what was derived from turns of a thread and ask for it anew; return how much of what.

    Summary and nodes go as a whole, since one may stand on any turn. A candidate that another turn
    has said as well stays. Cost: about thirty statements.

    Args:
        scope: The person's.
        thread_id: Their thread.
        run_ids: Its runs; None for all of them.
        now: When the jobs are asked for.
    """
    derived.take_jobs_back(scope=scope)
    counts = derived.drop_summaries(scope=scope, thread_id=thread_id, is_stale=lambda *_: True)
    runs = list(run_ids) if run_ids is not None else _runs_of(scope, thread_id)
    recall_ids = derived.recall_of_runs(scope=scope, run_ids=runs)
    counts["recall_entries"] += derived.forget_recall(scope=scope, recall_ids=recall_ids)
    waiting = CoreCandidate.objects.in_scope(scope).filter(
        run_id__in=runs, origin="run", status=CandidateStatus.PENDING, seen_count=1
    )
    counts["core_candidates"] += waiting.delete()[0]
    looked = Extraction.objects.in_scope(scope).filter(run_id__in=runs)
    counts["extractions"] += looked.delete()[0]
    derived.ask_anew(scope=scope, thread_id=thread_id, now=now)
    _ask_to_extract(scope, thread_id, now)
    return counts


def _runs_of(scope: Scope, thread_id: str) -> list[str]:
    rows = Run.objects.in_scope(scope).filter(thread_id=thread_id)
    return list(rows.order_by("seq").values_list("pk", flat=True))


def _ask_to_extract(scope: Scope, thread_id: str, now: datetime) -> None:
    rows = Run.objects.in_scope(scope).filter(thread_id=thread_id, status=RunStatus.SUCCEEDED)
    last = rows.select_related("agent").order_by("-seq").first()
    if last is None:
        return
    policy = policy_for(scope=scope, agent_overrides=last.agent.policy)
    job = extract_job(policy=policy, last=last)
    if job is not None:
        jobs.enqueue(scope=scope, job=job, now=now)
