"""Mode tagged: what is personal in a person's texts gives way to placeholders; the person stays.

One transaction: a value may be known from one text alone, so an erasure that stopped half-way could
not find it again in the others. Done twice, the second time finds nothing. A dry run does the same
and takes it back, so that it counts what the act itself does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from django.utils import timezone

from governance.erasure.operations import cancel_runs
from governance.models.erasure import Erasure
from memory.models import EndUser
from memory.scope import Scope
from threads.forgetting import derived, texts
from threads.forgetting.dry_run import taken_back
from threads.forgetting.remembered import mask_remembered
from threads.forgetting.said import mask_said
from threads.forgetting.texts import Pass
from threads.models import FINAL, Run, Thread


def erase_tagged(
    *, scope: Scope, erasure: Erasure, hold: Callable[[], None], is_dry_run: bool
) -> Mapping[str, int]:
    """Mask what is personal in all texts of a person, or count it; see `TaggedEraser`.

    Cost: about 5 ms a message that changes, with its turn; a pass over all texts before.

    Args:
        scope: The person's own.
        erasure: Which kinds, and from before which time.
        hold: Refuses to go on where the erasure is no longer ours.
        is_dry_run: Take everything back; `hold` is not called.
    """
    going = Pass(
        scope=scope,
        now=timezone.now(),
        before_at=erasure.before_at,
        mask=texts.evidence_of(erasure),
        hold=(lambda: None) if is_dry_run else hold,
    )
    counts: Counter[str] = Counter()
    # Contents of a dry run are gone with its transaction, its counts are not.
    with taken_back(scope, is_dry_run=is_dry_run):
        counts = _erase(going)
    return {name: number for name, number in sorted(counts.items()) if number}


def _erase(going: Pass) -> Counter[str]:
    going.hold()
    # Runs in flight first: whoever ends one locks it and then, by a foreign key, the person.
    mine = Run.objects.in_scope(going.scope).filter(end_user_id=going.person_id)
    running = mine.exclude(status__in=FINAL).order_by("pk")
    list(running.select_for_update(of=("self",)).values_list("pk", flat=True))
    # Whoever writes for the person is waited for, and waits: a foreign key takes the row.
    people = EndUser.objects.in_scope(going.scope).filter(pk=going.person_id)
    if people.select_for_update(of=("self",)).first() is None:
        return Counter()
    texts.learn(going)
    if not going.mask.values:
        return Counter()
    derived.take_jobs_back(scope=going.scope)
    # A prompt on its way was made of words that go, and its trace would bring them back.
    counts = Counter(cancelled_runs=cancel_runs(scope=going.scope, now=going.now))
    counts += mask_said(going)
    counts += mask_remembered(going)
    return counts + _drop_derived(going)


def _drop_derived(going: Pass) -> Counter[str]:
    stale = derived.recall_of_runs(scope=going.scope, run_ids=going.changed_runs)
    for row in going.rows(texts.RECALL):
        if going.changes(texts.RECALL, row):
            stale.add(row.pk)
            going.changed_threads.add(row.thread_id)
    counts = Counter(recall_entries=derived.forget_recall(scope=going.scope, recall_ids=stale))
    rows = Thread.objects.in_scope(going.scope).filter(end_user_id=going.person_id)
    for thread_id in list(rows.order_by("pk").values_list("pk", flat=True)):
        gone = _drop_summaries(going, thread_id)
        counts += gone
        if gone or thread_id in going.changed_threads:
            derived.ask_anew(scope=going.scope, thread_id=thread_id, now=going.now)
    return counts


def _drop_summaries(going: Pass, thread_id: str) -> Counter[str]:
    is_changed = thread_id in going.changed_threads

    def is_stale(text: str, content: object) -> bool:
        if is_changed:
            return True
        return going.mask.masked(text) != text or going.mask.masked_json(content) != content

    return derived.drop_summaries(scope=going.scope, thread_id=thread_id, is_stale=is_stale)
