"""The request underneath DRF's own."""

from __future__ import annotations

from django.http import HttpRequest
from rest_framework.request import Request


def django_request(request: Request) -> HttpRequest:
    """Return Django's request, whose body and path DRF wraps."""
    return request._request  # noqa: SLF001 - DRF names no public way to it
