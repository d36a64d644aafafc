"""Tenants whose memory is embedded at the scripted server, and the worker that does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from memory import jobs
from memory.errors import CredenceError
from memory.jobs import Claim
from memory.jobs.book import complete, fail
from memory.models import (
    Embedding,
    EmbeddingModel,
    EmbeddingStatus,
    IndexEntry,
    Job,
    JobStatus,
    Shelf,
    Tenant,
)
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.factories import scope_of
from tests.fakes.openai_embeddings import DIMENSIONS
from tests.fakes.openai_server import FakeOpenAI
from tests.shelving import make_model
from tests.talking import fake_provider
from threads.recall.embedding_jobs import embed_entries, reembed
from threads.recall.models_in_use import forget_active_models

CLOUD = {"locality": "cloud", "vendor": "elsewhere"}


@dataclass(frozen=True)
class Embedded:
    """What is stored of one text: its status, attempts and error."""

    status: str
    attempts: int
    error_code: str


READY = Embedded("ready", 1, "")


def endpoint_model(
    tenant: Tenant, server: FakeOpenAI, *, provider: Any = None, **values: Any
) -> EmbeddingModel:
    """A model at the scripted server, active unless told otherwise."""
    given = {"timeouts": {"connect": 2, "total": 5}} | (provider or {})
    values = {"kind": "openai_compatible", "name": "fake-embed"} | values
    values["provider"] = fake_provider(tenant, server, **given)
    dimensions = int(values.pop("dimensions", DIMENSIONS))
    return make_model(tenant, dimensions, **values)


def ask_for_vectors(tenant: Tenant) -> None:
    """Enqueue an embed job for every shelf of the tenant, as indexing does."""
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        for shelf in Shelf.objects.in_scope(scope):
            job = jobs.embed_job(shelf_id=shelf.pk, end_user_id=shelf.end_user_id)
            jobs.enqueue(scope=scope, job=job, now=timezone.now())


def work(tenant: Tenant, *, rounds: int = 20) -> list[str]:
    """Work off the tenant's embedding jobs as the worker does; return the codes of failed ones.

    A job that failed is not tried again here.
    """
    failed: list[str] = []
    for _ in range(rounds):
        claim = _claimed(tenant)
        if claim is None:
            return failed
        failed += _worked(claim)
    raise AssertionError("the jobs do not come to an end")


def vectors_of(tenant: Tenant, model: EmbeddingModel | None = None) -> dict[str, Embedded]:
    """What is stored by text, of one model or of all."""
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        rows = Embedding.objects.in_scope(scope).select_related("entry__recall", "entry__chunk")
        rows = rows.filter(model=model) if model else rows
        return {
            _text(row.entry): Embedded(row.status, row.attempts, row.error_code) for row in rows
        }


def models_of(tenant: Tenant) -> dict[str, str]:
    """The status of each model by name."""
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        rows = EmbeddingModel.objects.in_scope(scope)
        return dict(rows.values_list("name", "status"))


def the_active(tenant: Tenant) -> EmbeddingModel:
    """The active model."""
    scope = scope_of(tenant)
    forget_active_models()
    with scoped_transaction(scope):
        return EmbeddingModel.objects.in_scope(scope).get(status=EmbeddingStatus.ACTIVE)


def _text(entry: IndexEntry) -> str:
    return entry.recall.said if entry.recall else entry.chunk.content if entry.chunk else ""


def _claimed(tenant: Tenant) -> Claim | None:
    scope = Scope(tenant_ids=(tenant.pk,), principal_id="worker")
    with scoped_transaction(scope):
        rows = Job.objects.in_scope(scope).filter(kind__in=["embed", "reembed"])
        job = rows.filter(status=JobStatus.READY, attempts=0).order_by("id").first()
    return jobs.claim(job_id=job.pk, tenant_id=tenant.pk) if job else None


def _worked(claim: Claim) -> list[str]:
    scope = Scope(tenant_ids=(claim.tenant_id,), principal_id="worker", user_id=claim.end_user_id)
    wide = Scope(tenant_ids=(claim.tenant_id,), principal_id="worker")
    now = timezone.now()
    try:
        (embed_entries if claim.kind == "embed" else reembed)(scope=scope, claim=claim)
    except CredenceError as error:
        with scoped_transaction(wide):
            fail(scope=wide, claim=claim, error_code=error.code, now=now)
        return [error.code]
    with scoped_transaction(wide):
        complete(scope=wide, claim=claim, now=now)
    return []
