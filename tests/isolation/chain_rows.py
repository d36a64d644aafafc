"""Rows of the chain, of erasures, holds, links and kept usage for the worlds of isolation."""

from __future__ import annotations

from datetime import timedelta

from governance.models import AuditLeaf, AuditSeal, Disclosure, Erasure, ExportLink, LegalHold
from memory.ids import new_id
from memory.models import Tenant
from tests.factories import NOW
from threads.models import Agent, DayFigures, KeptUsage, Run


def fill_chain(tenant: Tenant, agent: Agent) -> None:
    """One link with one leaf, what erased runs of an agent had cost, and a day that is over."""
    seal = AuditSeal.objects.create(
        tenant=tenant, seq=1, entries=1, root="0" * 64, hash="1" * 64, sealed_at=NOW
    )
    AuditLeaf.objects.create(
        id=new_id("aud"), tenant=tenant, seal=seal, position=0, leaf_hash="2" * 64
    )
    KeptUsage.objects.create(tenant=tenant, agent=agent, day=NOW.date(), runs=1)
    DayFigures.objects.create(tenant=tenant, day=NOW.date(), runs=1, created_at=NOW)


def fill_person_chain(run: Run, mark: str) -> None:
    """What one person's run disclosed, an erasure, a hold and a link."""
    Disclosure.objects.create(
        tenant_id=run.tenant_id,
        kind="run",
        subject_id=run.end_user_id,
        run_id=run.pk,
        thread_id=run.thread_id,
        agent_id=run.agent_id,
        item_ids=[new_id("rec")],
    )
    Erasure.objects.create(
        tenant_id=run.tenant_id,
        subject_id=run.end_user_id,
        subject_hmac="3" * 64,
        subject_epoch=1,
        mode="all",
        requested_by="test",
        sealed_needles=f"{mark}needles",
    )
    LegalHold.objects.create(
        tenant_id=run.tenant_id,
        subject_id=run.end_user_id,
        reason=f"{mark}reason 理由",
        placed_by="test",
    )
    ExportLink.objects.create(
        tenant_id=run.tenant_id,
        end_user_id=run.end_user_id,
        token_sha256="4" * 64,
        created_by="test",
        created_at=NOW,
        expires_at=NOW + timedelta(days=1),
    )
