"""Bodies of knowledge documents."""

from __future__ import annotations

from typing import Any, Final

import re2
from rest_framework import serializers

from governance.decisions import MOST_REASON_CHARACTERS
from governance.knowledge.admission import MOST_TITLE_CHARACTERS
from memory.models import DocumentStatus
from threads.api.fields import StrictText, UserId, UtcTime
from threads.api.serializers.base import Answer, Body

TEXT_TYPES: Final = ("text/plain", "text/markdown", "text/html")
_KIND: Final = re2.compile(r"^[a-z][a-z0-9_]{0,39}$")


class _OwnedBody(Body):
    """What both ways of handing in a document share."""

    kind = StrictText(help_text="A word of the tenant's list: policy knowledge_kinds.")
    user_id = UserId(required=False, allow_null=True, default=None)
    team = StrictText(
        max_length=200, required=False, allow_null=True, default=None, help_text="Its id or name."
    )
    as_of = UtcTime(required=False, allow_null=True, default=None)

    def validate_kind(self, kind: str) -> str:
        """Let pass a name in snake_case.

        Raises:
            ValidationError: It is none.
        """
        if not _KIND.match(kind):
            raise serializers.ValidationError("A kind is 1 to 40 letters of snake_case.")
        return kind

    def validate(self, attrs: Any) -> Any:
        """Let pass one owner.

        Raises:
            ValidationError: There are two.
        """
        if attrs["user_id"] is not None and attrs["team"] is not None:
            detail = "A document is a person's or a team's, not both's."
            raise serializers.ValidationError({"team": [detail]})
        return attrs


class NewDocumentBody(_OwnedBody):
    """A document as text; without user_id and team it is the whole tenant's."""

    title = StrictText(max_length=MOST_TITLE_CHARACTERS)
    content = StrictText()
    media_type = serializers.ChoiceField(choices=TEXT_TYPES, required=False, default=TEXT_TYPES[0])


class NewFileBody(_OwnedBody):
    """A document as a file: text, Markdown, HTML or PDF; without a title its name is the title."""

    file = serializers.FileField()
    title = StrictText(max_length=MOST_TITLE_CHARACTERS, required=False, default="")


class RefusalBody(Body):
    """Why a document is refused."""

    reason = StrictText(
        max_length=MOST_REASON_CHARACTERS, required=False, allow_blank=True, default=""
    )


class DocumentAnswer(Answer):
    """A document, without its text."""

    id = serializers.CharField()
    title = serializers.CharField()
    kind = serializers.CharField()
    status = serializers.ChoiceField(choices=DocumentStatus.choices)
    media_type = serializers.CharField()
    bytes = serializers.IntegerField(help_text="Of what was handed in.")
    user_id = serializers.SerializerMethodField()
    team = serializers.CharField(source="team_id", allow_null=True)
    tier = serializers.CharField(help_text="untrusted where its text carries orders or markers.")
    as_of = UtcTime(allow_null=True)
    chunk_count = serializers.IntegerField(help_text="0 until the worker has indexed it.")
    reason = serializers.CharField()
    created_at = UtcTime()
    decided_at = UtcTime(allow_null=True)

    def get_user_id(self, document: Any) -> str | None:
        """Return whose it is by the tenant's own id, if it is a person's."""
        return document.end_user.user_id if document.end_user_id else None


class WholeDocumentAnswer(DocumentAnswer):
    """A document with the text that was read from it."""

    content = serializers.CharField()
