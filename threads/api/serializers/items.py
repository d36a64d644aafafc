"""Bodies of memory items."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from memory.models import ItemCategory, ItemStatus
from threads.api.fields import StrictText, UserId, UtcTime
from threads.api.serializers.base import Answer, Body
from threads.api.serializers.memories import SourceAnswer

MOST_ROLE = 64


class ItemBody(Body):
    """What is to be kept; a person by user_id or a team, exactly one of both."""

    user_id = UserId(required=False, allow_null=True, default=None)
    team = StrictText(
        max_length=200, required=False, allow_null=True, default=None, help_text="Its id or name."
    )
    title = StrictText(help_text="At most 200 characters.")
    content = StrictText(help_text="At most 500 characters, after secrets are taken out.")
    role = StrictText(
        max_length=MOST_ROLE,
        required=False,
        allow_null=True,
        default=None,
        help_text="The agents' role that sees it; `default` if not given.",
    )
    expires_at = UtcTime(
        required=False, allow_null=True, default=None, help_text="When it ends; in the future."
    )


class _SaidAnswer(Answer):
    """What an item and its versions have in common."""

    title = serializers.CharField()
    content = serializers.CharField()
    tier = serializers.CharField(help_text="untrusted where it carries orders or markers.")
    origin = serializers.CharField(help_text="run, api, staff or import.")
    confidence = serializers.FloatField(allow_null=True)
    source = serializers.SerializerMethodField()  # type: ignore[assignment]
    expires_at = UtcTime(allow_null=True)
    version = serializers.IntegerField()

    @extend_schema_field(SourceAnswer)
    def get_source(self, said: Any) -> dict[str, Any]:
        """Return where it comes from: the run that wrote it, where one did."""
        found: dict[str, Any] = SourceAnswer(
            {"kind": said.origin, "id": said.run_id, "external_id": None}
        ).data
        return found


class ItemAnswer(_SaidAnswer):
    """A memory item; `held` ones wait for a person and are shown nowhere else."""

    id = serializers.CharField()
    category = serializers.ChoiceField(choices=ItemCategory.choices)
    key = serializers.CharField()
    role = serializers.CharField()
    user_id = serializers.SerializerMethodField()
    team = serializers.CharField(source="team_id", allow_null=True)
    status = serializers.ChoiceField(choices=ItemStatus.choices)
    created_at = UtcTime()
    updated_at = UtcTime()

    def get_user_id(self, item: Any) -> str | None:
        """Return whose it is by the tenant's own id, if it is a person's."""
        return item.end_user.user_id if item.end_user_id else None


class VersionAnswer(_SaidAnswer):
    """What an item said from `at` on, until the next version."""

    at = UtcTime()
