"""The worker's jobs that make vectors: of one shelf's new entries, and of everything by a new model.

While a model is built the old one serves. Both are filled with what is new; when nothing lacks a vector
any more the new one takes over in one transaction, and the old vectors are deleted afterwards.
"""

from __future__ import annotations

from datetime import timedelta
from threading import Event
from time import monotonic
from typing import Final

from django.utils import timezone

from governance import audit
from memory import jobs
from memory.models import Embedding, EmbeddingModel, EmbeddingStatus, JobKind
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.recall.filling import fill_shelf, next_shelf
from threads.recall.models_in_use import (
    CACHE_SECONDS,
    ActiveModel,
    ensure_default_model,
    find_model,
    forget_active_models,
    models_to_fill,
)

# A job may work for two minutes: the last batch begins in the first.
_WORK_SECONDS: Final = 60.0
_DELETED_AT_ONCE: Final = 2_000
# By then no process asks by the old model any more.
SETTLE_SECONDS: Final = 2 * CACHE_SECONDS


def embed_entries(*, scope: Scope, claim: jobs.Claim) -> None:
    """Handle an `embed` job: give a shelf's entries the vectors they lack, of every model in use.

    What is left after a minute is asked for again. Cost: as `fill_shelf`.

    Raises:
        EmbeddingError: A model gave no answer at all.
        LeaseLostError: The job was claimed again; that claim goes on instead.
    """
    until = monotonic() + _WORK_SECONDS
    shelf_id = claim.dedupe_key.partition(":")[2]
    with scoped_transaction(scope):
        jobs.hold(scope=scope, claim=claim)
        ensure_default_model(scope=scope, now=timezone.now())
    for model in models_to_fill(scope=scope):
        if not fill_shelf(scope=scope, claim=claim, shelf_id=shelf_id, model=model, until=until):
            jobs.ask_again(scope=scope, claim=claim, now=timezone.now())
            return


def reembed(*, scope: Scope, claim: jobs.Claim) -> None:
    """Handle a `reembed` job: fill a model over all shelves, switch to it, delete what it replaces.

    Cost: as `fill_shelf`, for a minute; then it asks for itself again.

    Raises:
        EmbeddingError: The model gave no answer at all.
        LeaseLostError: The job was claimed again; that claim goes on instead.
    """
    until = monotonic() + _WORK_SECONDS
    model_id = claim.dedupe_key.partition(":")[2]
    model = find_model(scope=scope, model_id=model_id, status=EmbeddingStatus.BUILDING)
    if model is not None and not _is_built(scope, claim, model, until):
        jobs.ask_again(scope=scope, claim=claim, now=timezone.now())
        return
    if not _delete_retired(scope, claim, until):
        jobs.ask_again(scope=scope, claim=claim, now=timezone.now())


def reembed_job(*, model_id: str) -> jobs.NewJob:
    """Return the job that builds a model; one unfinished one a model."""
    return jobs.NewJob(
        kind=JobKind.REEMBED,
        thread_id=None,
        run_id=None,
        end_user_id=None,
        dedupe_key=f"{JobKind.REEMBED}:{model_id}",
    )


def _is_built(scope: Scope, claim: jobs.Claim, model: ActiveModel, until: float) -> bool:
    """Fill shelf after shelf, each text tried once, and switch if that was all."""
    after = ""
    while monotonic() < until:
        with scoped_transaction(scope):
            shelf_id = next_shelf(scope=scope, model=model, after=after)
        if shelf_id is None:
            return _switch(scope, claim, model)
        if not fill_shelf(scope=scope, claim=claim, shelf_id=shelf_id, model=model, until=until):
            return False
        after = shelf_id
    return False


def _switch(scope: Scope, claim: jobs.Claim, model: ActiveModel) -> bool:
    """Let the new model take over; False if an entry lacks its vector, or failed not for good."""
    now = timezone.now()
    with scoped_transaction(scope):
        jobs.hold(scope=scope, claim=claim)
        rows = EmbeddingModel.objects.in_scope(scope)
        locked = {row.pk: row for row in rows.select_for_update().order_by("pk")}
        row = locked.get(model.id)
        if row is None or row.status != EmbeddingStatus.BUILDING:
            return True
        if next_shelf(scope=scope, model=model, after="") is not None:
            return False
        rows.filter(status=EmbeddingStatus.ACTIVE).update(status=EmbeddingStatus.RETIRED)
        rows.filter(pk=row.pk).update(status=EmbeddingStatus.ACTIVE, activated_at=now)
        audit.record(
            scope=scope,
            action="embedding_model_activated",
            target_kind="embedding_model",
            target_id=row.pk,
            now=now,
            detail={"kind": row.kind, "dimensions": row.dimensions},
        )
    forget_active_models()
    return True


def _delete_retired(scope: Scope, claim: jobs.Claim, until: float) -> bool:
    """Delete the vectors of retired models; False if the time was up."""
    with scoped_transaction(scope):
        rows = EmbeddingModel.objects.in_scope(scope)
        retired = list(rows.filter(status=EmbeddingStatus.RETIRED).values_list("pk", flat=True))
        active = rows.filter(status=EmbeddingStatus.ACTIVE).first()
    if not retired:
        return True
    if active is not None and active.activated_at is not None:
        settled_at = active.activated_at + timedelta(seconds=SETTLE_SECONDS)
        left = (settled_at - timezone.now()).total_seconds()
        Event().wait(min(max(left, 0.0), SETTLE_SECONDS))
    while monotonic() < until:
        with scoped_transaction(scope):
            jobs.hold(scope=scope, claim=claim)
            vectors = Embedding.objects.in_scope(scope)
            # Read anew each time: a retired model may have been called back meanwhile.
            ids = vectors.filter(
                model_id__in=retired, model__status=EmbeddingStatus.RETIRED
            ).values_list("pk", flat=True)[:_DELETED_AT_ONCE]
            if not vectors.filter(pk__in=list(ids)).delete()[0]:
                return True
    return False
