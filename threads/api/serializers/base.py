"""Bases of all serializers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError


class Answer(serializers.Serializer[Any]):
    """What goes out; every field is read-only and always there."""


class Body(serializers.Serializer[Any]):
    """What comes in; a field that is not declared is an error, not ignored."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the checked values.

        Raises:
            ValidationError: Unknown fields, beside whatever else is wrong.
        """
        unknown = {}
        if isinstance(data, Mapping):
            detail = ErrorDetail("There is no such field.", code="unknown_field")
            unknown = {str(name)[:64]: [detail] for name in data if name not in self.fields}
        try:
            values = super().to_internal_value(data)
        except ValidationError as error:
            if unknown and isinstance(error.detail, Mapping):
                raise ValidationError({**error.detail, **unknown}) from error
            raise
        if unknown:
            raise ValidationError(unknown)
        return values


class Nothing(Body):
    """An empty body."""


class FieldErrorAnswer(Answer):
    """What is wrong with one field."""

    field = serializers.CharField()
    code = serializers.CharField()
    detail = serializers.CharField()


class ProblemAnswer(Answer):
    """A problem document (RFC 9457)."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    code = serializers.CharField(help_text="Stable; the description lists all of them.")
    request_id = serializers.CharField()
    errors = FieldErrorAnswer(many=True)  # type: ignore[assignment]
    run_id = serializers.CharField(required=False, help_text="Where a run was stored.")
    context = serializers.DictField(required=False)  # type: ignore[assignment]
    similar = serializers.ListField(
        required=False, help_text="Of similar_key: the keys there are, each with title and score."
    )
