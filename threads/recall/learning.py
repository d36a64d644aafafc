"""What a succeeded turn leaves behind: its texts after the gate, its speaker, its record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models.functions import Left

from governance.gate import MOST_BEFORE, UNTRUSTED, admit
from governance.policy_rules import Policy
from memory.cleared import Cleared
from memory.retrieval.records import Described, pack
from memory.scope import Scope
from memory.store import NewEntry, NewRecall
from threads.models import Message, MessageRole, Run, Thread
from threads.recall.speakers import speaker_in

KIND: Final = "recall"
_TIER: Final = "observed"
_MOST_SPEAKER_CHARS: Final = 200
_ENOUGH_TO_JOIN: Final = 64  # longer texts say what they say by themselves


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedTurn:
    """A turn after the gate.

    Attributes:
        recall: What is kept of it.
        packed: Its record, empty where nothing is left to be found.
        shown: Ids of what its prompt showed of recall and knowledge.
    """

    recall: NewRecall
    packed: bytes
    shown: Sequence[str] = ()

    def entry(self, *, recall_id: str, role: str) -> NewEntry:
        """Return the index entry that leads to its stored row."""
        return NewEntry(
            kind=KIND,
            packed=self.packed,
            tier=self.recall.tier,
            as_of=self.recall.said_at,
            role=role,
            recall_id=recall_id,
        )


@dataclass(frozen=True, slots=True)
class _UserMessage:
    speaker: str | None = None
    external_id: str | None = None


def learn_turns(
    *, scope: Scope, thread: Thread, runs: Sequence[Run], policy: Policy
) -> Callable[[], list[LearnedTurn]]:
    """Read what else is needed of some runs of a thread; what is returned does the pure rest.

    Inside the caller's transaction; calling the result needs none, so that no lock waits for the
    gate. Cost: two queries; then about 0.3 ms a short turn.

    Args:
        scope: Names the thread's person.
        thread: With its agent.
        runs: In order, at least one.
        policy: The agent's.
    """
    asked = _user_messages(scope, runs)
    before = _inputs_before(scope, thread, runs[0].seq)

    def learn() -> list[LearnedTurn]:
        said = [*before, *(run.input for run in runs)]
        first = len(before)
        return [
            _learn(thread, run, asked.get(run.pk, _UserMessage()), said[: first + place], policy)
            for place, run in enumerate(runs)
        ]

    return learn


def record_of(*, thread_id: str, place: int, recall: NewRecall, role: str) -> bytes:
    """Return the record of a turn as the gate let it through, empty if nothing is left of it."""
    said, answered, speaker = map(_text, (recall.said, recall.answered, recall.speaker))
    if not (said or answered):
        return b""
    prefix = f"{speaker}: " if speaker and speaker not in said else ""
    return pack(
        Described(
            kind=KIND,
            text=f"{prefix}{said}\n{answered}",
            session=thread_id,
            place=place,
            said_at=recall.said_at,
            role=role,
            speaker=speaker or None,
        )
    )


def _user_messages(scope: Scope, runs: Sequence[Run]) -> Mapping[str, _UserMessage]:
    rows = Message.objects.in_scope(scope).filter(
        run_id__in=[run.pk for run in runs], role=MessageRole.USER
    )
    first = rows.order_by("run_id", "position").distinct("run_id")
    return {
        run_id: _UserMessage(speaker, external_id)
        for run_id, speaker, external_id in first.values_list("run_id", "speaker", "external_id")
    }


def _inputs_before(scope: Scope, thread: Thread, seq: int) -> list[str]:
    """Return the beginnings of what was said just before, oldest first."""
    rows = Run.objects.in_scope(scope).filter(thread_id=thread.pk, seq__lt=seq)
    said = rows.order_by("-seq").values_list(Left("input", _ENOUGH_TO_JOIN), flat=True)
    return list(said[:MOST_BEFORE])[::-1]


def _learn(
    thread: Thread, run: Run, message: _UserMessage, before: Sequence[str], policy: Policy
) -> LearnedTurn:
    def admitted(text: str, before: Sequence[str] = ()) -> Cleared | None:
        result = admit(
            text=text,
            tier=_TIER,
            policy=policy,
            run_status=run.status,
            before=before,
            can_wait=False,
        )
        return result if isinstance(result, Cleared) else None

    said, answered = admitted(run.input, before[-MOST_BEFORE:]), admitted(run.output)
    name = admitted(message.speaker or speaker_in(_text(said)) or "")
    tiers = {part.tier for part in (said, answered, name) if part is not None}
    recall = NewRecall(
        run_id=run.pk,
        said=said,
        answered=answered,
        tier=UNTRUSTED if UNTRUSTED in tiers else _TIER,
        said_at=run.created_at,
        speaker=name and name.part(start=0, end=_MOST_SPEAKER_CHARS),
        external_id=run.external_id or message.external_id,
    )
    role = thread.agent.role
    packed = record_of(thread_id=thread.pk, place=run.seq, recall=recall, role=role)
    return LearnedTurn(recall=recall, packed=packed)


def _text(part: Cleared | None) -> str:
    return part.text if part is not None else ""
