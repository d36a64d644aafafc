"""Blanking what an erased person said in other persons' threads; all else of those stays.

An imported group conversation belongs to one person and names its speakers. The words of the one
who is erased give way to a placeholder, the name goes, and what was made of them is made anew.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.utils import timezone

from governance.models import CandidateStatus, CoreCandidate, Correction, Extraction
from memory.retrieval.words import message_terms
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.tokens import estimate
from threads.forgetting import derived
from threads.forgetting.dry_run import taken_back
from threads.forgetting.masking import strings_in
from threads.history import turn_tokens
from threads.models import ContextTrace, Message, Run, RunTrace
from threads.tool_rounds import steps_tokens

PLACEHOLDER: Final = "[erased]"
_PRINCIPAL: Final = "eraser"
# A trace that quotes less than this of a blanked text tells nothing of it.
_LEAST_QUOTE: Final = 4


def blank_speaker(
    *, tenant_id: str, user_id: str, hold: Callable[[], None], is_dry_run: bool
) -> Mapping[str, int]:
    """Blank one person's turns in the threads of others, one thread a transaction, or count them.

    Cost: one query over the tenant's speakers, about two dozen statements a thread they spoke in.

    Args:
        tenant_id: Whose threads.
        user_id: The tenant's own name of the person; a speaker of that name in any case is them.
        hold: Refuses to go on where the erasure is no longer ours.
        is_dry_run: Take everything back; `hold` is not called.
    """
    wide = Scope(tenant_ids=(tenant_id,), principal_id=_PRINCIPAL)
    counts: Counter[str] = Counter()
    for thread_id, (owner_id, spoken) in _spoken(wide, user_id).items():
        scope = wide.narrowed(user_id=owner_id)
        with taken_back(scope, is_dry_run=is_dry_run):
            if not is_dry_run:
                hold()
            counts += _blank_thread(scope, thread_id, spoken, timezone.now())
    return {name: number for name, number in sorted(counts.items()) if number}


def _folded(name: str) -> str:
    """Return a name as two are compared: composed, in one case, without spaces around."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold()).strip()


def _spoken(wide: Scope, user_id: str) -> dict[str, tuple[str, list[str]]]:
    """Return whose thread each is in which the person spoke, and the messages they said there."""
    found: dict[str, tuple[str, list[str]]] = {}
    with scoped_transaction(wide):
        rows = Message.objects.in_scope(wide).filter(speaker__isnull=False)
        names = rows.order_by().values_list("speaker", flat=True).distinct()
        theirs = [name for name in names if name and _folded(name) == _folded(user_id)]
        said = rows.filter(speaker__in=theirs).order_by("thread_id", "pk")
        for thread_id, owner_id, pk in said.values_list("thread_id", "end_user_id", "pk"):
            found.setdefault(thread_id, (owner_id, []))[1].append(pk)
    return found


def _blank_thread(
    scope: Scope, thread_id: str, message_ids: Sequence[str], now: datetime
) -> Counter[str]:
    derived.take_jobs_back(scope=scope)
    rows = Message.objects.in_scope(scope).filter(pk__in=message_ids)
    said: dict[str, list[str]] = defaultdict(list)
    for message in rows.select_for_update(of=("self",)).order_by("pk"):
        said[message.run_id].append(message.content)
        message.content, message.speaker, message.name = PLACEHOLDER, None, None
        message.tool_calls, message.pii, message.external_id = [], [], None
        message.terms, message.token_count = message_terms(PLACEHOLDER), estimate(PLACEHOLDER)
        message.save()
    for run in Run.objects.in_scope(scope).filter(pk__in=list(said)):
        _blank_run(run, said[run.pk])
    counts = Counter(blanked_messages=len(message_ids), blanked_runs=len(said))
    counts += _forget_learned(scope, list(said), message_ids)
    counts += _forget_traces(scope, [text for texts in said.values() for text in texts])
    inside = derived.drop_summaries(scope=scope, thread_id=thread_id, is_stale=lambda *_: True)
    derived.ask_anew(scope=scope, thread_id=thread_id, now=now)
    return counts + Counter({f"blanked_{name}": number for name, number in inside.items()})


def _blank_run(run: Run, said: Sequence[str]) -> None:
    """Take the words out of a run's copies; a copy that joins others' words keeps those."""
    for text in sorted(said, key=len, reverse=True):
        if text.strip():
            run.input = run.input.replace(text, PLACEHOLDER)
            run.output = run.output.replace(text, PLACEHOLDER)
    run.turn_tokens = turn_tokens(input_text=run.input, output_text=run.output)
    run.turn_tokens += steps_tokens(run.tool_steps)
    run.save(update_fields=["input", "output", "turn_tokens"])


def _forget_learned(
    scope: Scope, run_ids: Sequence[str], message_ids: Sequence[str]
) -> Counter[str]:
    """Take away what was learned of these turns and nobody decided; it is looked for anew."""
    stale = derived.recall_of_runs(scope=scope, run_ids=run_ids)
    waiting = CoreCandidate.objects.in_scope(scope).filter(
        run_id__in=run_ids, status=CandidateStatus.PENDING
    )
    corrections = Correction.objects.in_scope(scope).filter(message_id__in=message_ids)
    Extraction.objects.in_scope(scope).filter(run_id__in=run_ids).delete()
    return Counter(
        blanked_recall_entries=derived.forget_recall(scope=scope, recall_ids=stale),
        blanked_candidates=waiting.delete()[0],
        blanked_corrections=corrections.delete()[0],
    )


def _forget_traces(scope: Scope, said: Sequence[str]) -> Counter[str]:
    """Delete the owner's traces of prompts that quote any of the words."""
    quotes = [text for text in said if len(text) >= _LEAST_QUOTE]
    counts: Counter[str] = Counter()
    for model in (RunTrace, ContextTrace):
        rows = model.objects.in_scope(scope).filter(end_user_id=scope.user_id)
        stale = [row.pk for row in rows.iterator(chunk_size=200) if _quotes(row, quotes)]
        counts["blanked_traces"] += rows.filter(pk__in=stale).delete()[0]
    return counts


def _quotes(row: Any, quotes: Sequence[str]) -> bool:
    texts = [*strings_in(row.messages), *strings_in(row.items)]
    return any(quote in text for text in texts for quote in quotes)
