"""Bodies of the vocabulary: corrections, candidates, entities."""

from __future__ import annotations

from typing import Any, Final

import re2
from rest_framework import serializers

from governance.decisions import MOST_REASON_CHARACTERS
from governance.entities.corrections import MOST_TEXT_CHARACTERS
from governance.entities.terms import MOST_ALIASES, MOST_TERM_CHARACTERS
from governance.models import Correction, EntityCandidateStatus
from memory.models import EntityStatus
from threads.api.fields import StrictText, UtcTime
from threads.api.serializers.base import Answer, Body

_TYPE: Final = re2.compile(r"^[a-z][a-z0-9_]{0,39}$")
_CHANGEABLE: Final = (EntityStatus.ACTIVE.value, EntityStatus.RETIRED.value)


class EntityType(StrictText):
    """The kind of thing that a term names, a word of the tenant's own in snake_case."""

    def to_internal_value(self, data: Any) -> str:
        """Return the word."""
        word = super().to_internal_value(data)
        if not _TYPE.match(word):
            raise serializers.ValidationError("This is 1 to 40 letters of snake_case.")
        return word


class Aliases(serializers.ListField):
    """Other names of a term."""

    child = StrictText(max_length=MOST_TERM_CHARACTERS)

    def __init__(self, **options: Any) -> None:
        """As ListField, at most 200."""
        super().__init__(max_length=MOST_ALIASES, required=False, **options)


class CorrectionBody(Body):
    """What a person put right."""

    term = StrictText(max_length=MOST_TERM_CHARACTERS, help_text="The term as it should be.")
    entity_type = EntityType(help_text="snake_case, such as product or person.")
    wrong = StrictText(
        max_length=MOST_TEXT_CHARACTERS, required=False, allow_blank=True, default=""
    )
    right = StrictText(
        max_length=MOST_TEXT_CHARACTERS, required=False, allow_blank=True, default=""
    )
    message_id = StrictText(
        max_length=40,
        required=False,
        allow_null=True,
        default=None,
        help_text="The message it is about, of this thread.",
    )


class CorrectionAnswer(Answer):
    """A correction, and the candidate it is evidence of; null until the worker has linked it."""

    id = serializers.CharField()
    candidate_id = serializers.CharField(allow_null=True)
    term = serializers.CharField()
    entity_type = serializers.CharField()
    wrong = serializers.CharField()
    right = serializers.CharField()
    message_id = serializers.CharField(allow_null=True)
    tier = serializers.CharField(help_text="untrusted where it carries orders: then evidence only.")
    created_at = UtcTime()


class EntityAnswer(Answer):
    """A term of the tenant's vocabulary."""

    id = serializers.CharField()
    entity_type = serializers.CharField()
    term = serializers.CharField()
    aliases = serializers.ListField(child=serializers.CharField())
    weight = serializers.FloatField()
    status = serializers.ChoiceField(choices=EntityStatus.choices)
    merged_into = serializers.CharField(source="merged_into_id", allow_null=True)
    last_hit_at = UtcTime(allow_null=True)
    last_decayed_at = UtcTime(allow_null=True)
    approved_at = UtcTime()
    updated_at = UtcTime(help_text="When its names or its status changed last.")


class EntityEventAnswer(Answer):
    """One change of an entity."""

    id = serializers.CharField()
    kind = serializers.CharField(
        help_text="approved, hit, decayed, edited, merged, unmerged or retired."
    )
    weight_before = serializers.FloatField()
    weight_after = serializers.FloatField()
    user_id = serializers.SerializerMethodField()
    run_id = serializers.CharField(allow_null=True)
    other = serializers.CharField(help_text="The other entity of a merge.")
    by = serializers.CharField()
    at = UtcTime()

    def get_user_id(self, event: Any) -> str | None:
        """Return whose run it was by the tenant's own id, of a hit."""
        return event.end_user.user_id if event.end_user_id else None


class EntityBody(Body):
    """What to change of an entity; its weight moves by itself."""

    term = StrictText(max_length=MOST_TERM_CHARACTERS, required=False)
    aliases = Aliases(help_text="All its other names.")
    add_aliases = Aliases(help_text="Names to add to those there are.")
    remove_aliases = Aliases(help_text="Names to take away from those there are.")
    status = serializers.ChoiceField(choices=_CHANGEABLE, required=False)


class MergeBody(Body):
    """Which entity it becomes part of."""

    target_id = StrictText(max_length=40)


class EvidenceAnswer(Answer):
    """One correction that speaks for a candidate."""

    correction_id = serializers.CharField(source="id")
    thread_id = serializers.CharField()
    run_id = serializers.CharField(allow_null=True)
    text = serializers.SerializerMethodField()
    at = UtcTime(source="created_at")

    def get_text(self, correction: Correction) -> str:
        """Return what was put right: wrong → right where both are told, else what is."""
        told = [part for part in (correction.wrong, correction.right) if part]
        return " → ".join(told) or correction.term


class EntityCandidateAnswer(Answer):
    """A term that waits for a decision, or has it."""

    id = serializers.CharField()
    entity_type = serializers.CharField()
    term = serializers.CharField()
    status = serializers.ChoiceField(choices=EntityCandidateStatus.choices)
    flags = serializers.ListField(child=serializers.CharField())
    evidence_count = serializers.IntegerField()
    evidence = EvidenceAnswer(source="shown_evidence", many=True, help_text="The newest twenty.")
    entity_id = serializers.CharField(allow_null=True)
    first_approved_by = serializers.CharField(help_text="Under four eyes: whose second is needed.")
    decided_by = serializers.CharField()
    decided_at = UtcTime(allow_null=True)
    reason = serializers.CharField()
    created_at = UtcTime()
    updated_at = UtcTime()


class EntityApprovalBody(Body):
    """The term as it is approved, where that is another than was proposed."""

    term = StrictText(max_length=MOST_TERM_CHARACTERS, required=False, default=None)
    entity_type = EntityType(required=False, default=None)


class EntityRejectionBody(Body):
    """Why a candidate is rejected."""

    reason = StrictText(
        max_length=MOST_REASON_CHARACTERS, required=False, allow_blank=True, default=""
    )
