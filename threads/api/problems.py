"""Problem documents (RFC 9457), the one shape of every error answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse

from threads.api.middleware import new_request_id, request_id_of
from threads.api.renderers import to_json

CONTENT_TYPE = "application/problem+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """What is wrong with one field; nested ones are named `facts.0.label`."""

    field: str
    code: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error as it is told to a client.

    Attributes:
        status: HTTP status.
        code: The stable word a program looks at.
        detail: What happened and what to do.
        errors: The fields that are wrong.
        extra: Further members, such as `run_id`.
        headers: Headers of the answer, such as `Retry-After`.
    """

    status: int
    code: str
    detail: str
    errors: tuple[FieldError, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


def problem_response(problem: Problem, *, request: HttpRequest) -> HttpResponse:
    """Return the answer; it is sent whatever the client says it accepts."""
    return _answer(problem, request_id_of(request))


def early_refusal(problem: Problem) -> HttpResponse:
    """Return the answer to a request that never reaches Django, with an id of its own."""
    request_id = new_request_id()
    response = _answer(problem, request_id)
    response["X-Request-Id"] = request_id
    response["Cache-Control"] = "private, no-store"
    response["Content-Length"] = str(len(response.content))
    response["Connection"] = "close"
    return response


def _answer(problem: Problem, request_id: str) -> HttpResponse:
    body = {
        "type": "about:blank",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.detail,
        "code": problem.code,
        "request_id": request_id,
        "errors": [
            {"field": error.field, "code": error.code, "detail": error.detail}
            for error in problem.errors
        ],
        **problem.extra,
    }
    return HttpResponse(
        to_json(body).encode(),
        status=problem.status,
        content_type=CONTENT_TYPE,
        headers=dict(problem.headers),
    )
