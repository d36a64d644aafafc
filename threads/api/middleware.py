"""What every answer carries, whoever made it: a request id, and that nobody may keep a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import uuid4

import re2
from django.http import HttpRequest
from django.http.response import HttpResponseBase

API_PREFIXES: Final = ("/v1/", "/exports/", "/healthz", "/readyz")
_META: Final = "credence.request_id"
_SAFE = re2.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")


def new_request_id() -> str:
    """Return a fresh request id."""
    return f"req-{uuid4().hex}"


def request_id_of(request: HttpRequest) -> str:
    """Return the id of this request, as its answer and its log lines carry it."""
    return str(request.META.get(_META, ""))


def is_api_path(path: str) -> bool:
    """Say whether a path belongs to the API, so that its errors are problem documents."""
    return path == "/v1" or path.startswith(API_PREFIXES)


class RequestIdMiddleware:
    """Gives each request an id; a client's own is taken if it is short and plain."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        """Keep the rest of the stack."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Serve the request and mark its answer."""
        given = request.headers.get("X-Request-Id", "")
        request.META[_META] = given if _SAFE.match(given) else new_request_id()
        response = self.get_response(request)
        response["X-Request-Id"] = request_id_of(request)
        if is_api_path(request.path):
            response.headers.setdefault("Cache-Control", "private, no-store")
        return response
