"""The files that runs write: stored with the run that succeeds, read by those that go on with it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from memory.scope import Scope
from threads.models import Artifact, Run
from threads.tools.records import NewArtifact, WorkspaceFile

MOST_RUNS_BACK: Final = 20
MOST_FILES: Final = 50


def store_artifacts(
    *,
    scope: Scope,
    run_id: str,
    thread_id: str,
    end_user_id: str,
    artifacts: Sequence[NewArtifact],
    now: datetime,
) -> None:
    """Store what a succeeded run wrote, inside the caller's transaction.

    Cost: nothing without files, else one insert.
    """
    rows = [
        Artifact(
            id=new.id,
            tenant_id=scope.tenant_id,
            end_user_id=end_user_id,
            thread_id=thread_id,
            run_id=run_id,
            name=new.name,
            content=new.content,
            bytes=new.bytes,
            created_at=now,
        )
        for new in artifacts
    ]
    if rows:
        Artifact.objects.bulk_create(rows)


def read_workspace(*, scope: Scope, run_id: str) -> tuple[WorkspaceFile, ...]:
    """Return the files of a run and of those it went on from, the newest version of each name.

    Oldest first, at most 50 (the newest), from at most 20 runs. Inside the caller's transaction.
    Cost: two queries, and one a run gone back.
    """
    chain = _chain(scope, run_id)
    places = {run: place for place, run in enumerate(chain)}
    rows = Artifact.objects.in_scope(scope).filter(run_id__in=chain)
    newest: dict[str, tuple[int, str]] = {}
    for pk, name, run in rows.order_by("id").values_list("id", "name", "run_id"):
        if name not in newest or places[run] < newest[name][0]:
            newest[name] = (places[run], pk)
    chosen = sorted(newest.values(), key=lambda found: (-found[0], found[1]))[-MOST_FILES:]
    files = Artifact.objects.in_scope(scope).in_bulk([pk for _, pk in chosen])
    return tuple(_file(files[pk]) for _, pk in chosen if pk in files)


def _chain(scope: Scope, run_id: str) -> list[str]:
    """Return the run and those it continues, newest first; a circle ends it."""
    chain: list[str] = []
    at: str | None = run_id
    while at and at not in chain and len(chain) < MOST_RUNS_BACK:
        found = Run.objects.in_scope(scope).filter(pk=at).values_list("continues_id").first()
        if found is None:
            break
        chain.append(at)
        at = found[0]
    return chain


def _file(row: Artifact) -> WorkspaceFile:
    return WorkspaceFile(
        id=row.pk,
        run_id=row.run_id,
        name=row.name,
        content=row.content,
        bytes=row.bytes,
        created_at=row.created_at,
    )
