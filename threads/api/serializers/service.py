"""Bodies of health and readiness."""

from __future__ import annotations

from rest_framework import serializers

from threads.api.serializers.base import Answer


class StateAnswer(Answer):
    """How the service is."""

    status = serializers.CharField()
