"""The job archive_artifacts: files that a succeeded run wrote are offered to the knowledge base.

Only where policy `archive_artifacts` is on. They wait for a person as any document does, unless
policy admits at once; the same text of the same person is offered once, also after it was refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from django.utils import timezone

from governance.knowledge.admission import FROM_RUN, check_kind, clear_text, store_once
from governance.knowledge.problems import NotAdmittedError
from governance.policy import policy_for
from governance.policy_rules import Policy
from memory import jobs, store
from memory.errors import InvalidInputError
from memory.models import JobKind
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.models import Artifact, Run, RunStatus
from threads.recall.left_behind import note_left

ARTIFACT: Final = "artifact"
_KEY: Final = f"{JobKind.ARCHIVE_ARTIFACTS}:"
_TYPES: Final = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".htm": "text/html",
    ".html": "text/html",
}


def archive_job(*, policy: Policy, run: Run, has_files: bool) -> jobs.NewJob | None:
    """Return the job that archives a run's files, None where policy is off or there are none."""
    if not (has_files and policy.is_on("writeback") and policy.is_on("archive_artifacts")):
        return None
    return jobs.NewJob(
        kind=JobKind.ARCHIVE_ARTIFACTS,
        thread_id=None,
        run_id=run.pk,
        end_user_id=run.end_user_id,
        dedupe_key=f"{_KEY}{run.pk}",
    )


def archive_artifacts(*, scope: Scope, claim: jobs.Claim) -> None:
    """Handle an `archive_artifacts` job: each file of its run through the gate, into a document.

    What the gate or the tenant's list refuses is passed over. Cost: about eight statements a file.

    Raises:
        LeaseLostError: The job was claimed again; that claim goes on instead.
    """
    run_id = claim.dedupe_key.removeprefix(_KEY)
    run, policy, files = _read(scope, run_id)
    if run is None or run.status != RunStatus.SUCCEEDED:
        return
    for file in files:
        _archive(scope, claim, run, policy, file)


def _read(scope: Scope, run_id: str) -> tuple[Run | None, Policy, Sequence[Artifact]]:
    """Return a run, its policy and its files; no files where policy has been turned off since."""
    with scoped_transaction(scope):
        rows = Run.objects.in_scope(scope).select_related("agent", "end_user")
        run = rows.filter(pk=run_id).first()
        policy = policy_for(scope=scope, agent_overrides=run.agent.policy if run else {})
        if run is None or not policy.is_on("archive_artifacts"):
            return None, policy, ()
        files = Artifact.objects.in_scope(scope).filter(run_id=run_id).order_by("id")
        return run, policy, list(files)


def _archive(scope: Scope, claim: jobs.Claim, run: Run, policy: Policy, file: Artifact) -> None:
    """Offer one file; what comes of it is told in the run's trace."""
    raw = file.content.encode()
    media_type = _TYPES.get(PurePosixPath(file.name).suffix.lower(), "text/plain")
    try:
        check_kind(policy=policy, kind=ARTIFACT)
        text = clear_text(
            raw=raw,
            title=file.name,
            media_type=media_type,
            policy=policy,
            run_status=run.status,
        )
    except (NotAdmittedError, InvalidInputError):
        return
    mine = store.NewDocument(
        title=text.title,
        content=text.content,
        kind=ARTIFACT,
        media_type=media_type,
        size_bytes=len(raw),
        origin=FROM_RUN,
        end_user=run.end_user,
        run_id=run.pk,
        as_of=run.created_at,
    )
    now = timezone.now()
    with scoped_transaction(scope):
        jobs.hold(scope=scope, claim=claim)
        document, is_new = store_once(scope=scope, mine=mine, policy=policy, now=now)
        if is_new:
            note_left(scope=scope, left={run.pk: {"documents": [document.pk]}}, now=now)
