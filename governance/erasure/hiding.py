"""The first step: nobody finds the person any more, and what runs for them is cancelled."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from functools import partial
from typing import Final

from governance.erasure import booking, mentions, needles, operations, speakers
from governance.erasure.subjects import subject_of
from governance.models.erasure import Erasure
from memory.models import EndUser
from memory.rls import maintenance_transaction, scoped_transaction

STEP: Final = "hide"


def collect_needles(erasure: Erasure) -> None:
    """Seal what the search will look for, once, before anything is gone."""
    if erasure.sealed_needles:
        return
    with maintenance_transaction() as alias:
        sealed = needles.collect(alias=alias, erasure=erasure).sealed()
    scope = subject_of(erasure).wide
    with scoped_transaction(scope):
        booking.hold(erasure)
        Erasure.objects.in_scope(scope).filter(pk=erasure.pk).update(sealed_needles=sealed)
    erasure.sealed_needles = sealed


def hide(erasure: Erasure, *, now: datetime) -> bool:
    """Hide the person, in one transaction; whether there still is one.

    Whoever writes for the person at that moment is waited for. Kept answers that name the person
    by the tenant's own name go while it is known. Cost: eight statements and a pass over the
    answers of a day.
    """
    subject = subject_of(erasure)
    with scoped_transaction(subject.wide):
        booking.hold(erasure)
        rows = EndUser.objects.in_scope(subject.wide).filter(pk=subject.person_id)
        person = rows.select_for_update(of=("self",)).first()
        if person is None:
            return False
        if person.erasing_at is None:
            gone = Counter(mentions.erase(subject_of(erasure, user_id=person.user_id)))
            gone += Counter(
                speakers.blank_speaker(
                    tenant_id=erasure.tenant_id,
                    user_id=person.user_id,
                    hold=partial(booking.hold, erasure),
                    is_dry_run=False,
                )
            )
            rows.update(erasing_at=now, user_id=erasure.pk)
            booking.note(erasure, step=STEP, counts=gone)
    return True


def cancel_runs(erasure: Erasure, *, now: datetime) -> None:
    """Cancel what still runs for a hidden person; whoever drives a run hears of it within a second.

    Not while the person's row is locked: whoever ends a run holds that and then asks for the person.
    """
    subject = subject_of(erasure)
    with scoped_transaction(subject.own):
        booking.hold(erasure)
        operations.cancel_runs(scope=subject.own, now=now)
