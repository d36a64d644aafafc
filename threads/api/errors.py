"""From what went wrong to what the client is told: the one table of codes and statuses.

Nothing of a database's or library's own message goes out: it may quote a row, a table or a key.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import singledispatch
from typing import Any, Final

from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.db import DataError, IntegrityError, InterfaceError, OperationalError, ProgrammingError
from django.http import Http404, HttpRequest, HttpResponse
from django.views import defaults
from rest_framework import exceptions
from rest_framework.exceptions import APIException, ValidationError

from memory.errors import CredenceError, NotFoundError
from threads.api.middleware import is_api_path, request_id_of
from threads.api.problems import FieldError, Problem, problem_response

_log = logging.getLogger("credence.api")

STATUS: Final[Mapping[str, int]] = {
    "invalid": 400,
    "invalid_json": 400,
    "invalid_text": 400,
    "unknown_field": 400,
    "unknown_parameter": 400,
    "invalid_parameter": 400,
    "invalid_cursor": 400,
    "invalid_value": 400,
    "bad_request": 400,
    "reserved_user_id": 400,
    "invalid_policy": 400,
    "unreadable_document": 400,
    "too_long": 400,
    "erasure_narrowed": 400,
    "unknown_kind": 400,
    "bad_key": 400,
    "blocked_by_red_line": 400,
    "blocked_pii": 400,
    "unknown_team": 400,
    "wrong_person": 400,
    "bad_sample": 400,
    "invalid_idempotency_key": 400,
    "unknown_agent": 400,
    "unknown_provider": 400,
    "fallback_not_allowed": 400,
    "api_key_required": 400,
    "thread_mismatch": 400,
    "run_mismatch": 400,
    "continue_needs_stream": 400,
    "facts_not_allowed": 400,
    "provider_host_refused": 400,
    "provider_misconfigured": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "locality_forbids": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "not_acceptable": 406,
    "conflict": 409,
    "name_taken": 409,
    "already_decided": 409,
    "can_not_merge": 409,
    "not_merged": 409,
    "merged_entity": 409,
    "too_many_aliases": 409,
    "similar_key": 409,
    "core_full": 409,
    "not_rederivable": 409,
    "legal_hold": 409,
    "erasure_running": 409,
    "erasure_not_failed": 409,
    "fact_ended": 409,
    "same_fact": 409,
    "second_approver_needed": 409,
    "instruction_like": 409,
    "not_approved": 409,
    "govern_with_write": 409,
    "agent_inactive": 409,
    "run_finished": 409,
    "run_cancelled": 409,
    "thread_archived": 409,
    "idempotency_conflict": 409,
    "slug_taken": 409,
    "body_too_slow": 408,
    "body_too_large": 413,
    "uri_too_long": 414,
    "unsupported_media_type": 415,
    "context_over_budget": 422,
    "not_admitted": 422,
    "rate_limited": 429,
    "internal_error": 500,
    "provider_error": 502,
    "not_ready": 503,
    "readers_busy": 503,
    "database_unavailable": 503,
    "erasures_not_reapplied": 503,
    "ledger_damaged": 503,
    "provider_timeout": 504,
}
# A refused row is a fault of our own checks, but its answer must say no more than they would.
_ROW_REFUSED: Final = "42501"
_FRAMEWORK: Final[tuple[tuple[type[APIException], str, str], ...]] = (
    (exceptions.NotAuthenticated, "unauthenticated", "Send a valid API key as a bearer token."),
    (exceptions.AuthenticationFailed, "unauthenticated", "Send a valid API key as a bearer token."),
    (exceptions.PermissionDenied, "forbidden", "This key may not do that."),
    (exceptions.NotFound, "not_found", str(NotFoundError())),
    (exceptions.MethodNotAllowed, "method_not_allowed", "This path does not take that method."),
    (exceptions.NotAcceptable, "not_acceptable", "This path answers in application/json."),
    (
        exceptions.UnsupportedMediaType,
        "unsupported_media_type",
        "Send application/json in UTF-8, without a content encoding.",
    ),
    (exceptions.Throttled, "rate_limited", "Too many requests; wait a moment."),
)
# What an error knows besides, and its answer says.
_TOLD: Final = ("run_id", "context", "least_recently_used", "similar")
_SPEAKING: Final = ("unknown_field", "reserved_user_id", "invalid_text")
_UNAVAILABLE: Final = Problem(
    status=503,
    code="database_unavailable",
    detail="The database does not answer; try again.",
    headers={"Retry-After": "2"},
)


def exception_handler(exc: Exception, context: Mapping[str, Any]) -> HttpResponse:
    """Answer an exception that a view raised; DRF's hook."""
    return answer_to(exc, request=context["request"])


def answer_to(exc: Exception, *, request: HttpRequest) -> HttpResponse:
    """Return the problem answer to any exception; what is our own fault is logged."""
    problem = problem_of(exc)
    if problem.status >= 500 or isinstance(exc, ValueError | DataError | ProgrammingError):
        extra = {"request_id": request_id_of(request), "code": problem.code}
        _log.error("request failed", exc_info=exc, extra=extra)
    return problem_response(problem, request=request)


@singledispatch
def problem_of(_exc: Exception) -> Problem:
    """Return what the client is told about an exception; of an unforeseen one, nothing."""
    return Problem(
        status=500,
        code="internal_error",
        detail="Something went wrong inside Credence; the request_id helps to find it.",
    )


@problem_of.register
def _of_domain(exc: CredenceError) -> Problem:
    """Look up the code, or the nearest parent's status for a code the table does not name."""
    codes = [getattr(kind, "code", "") for kind in type(exc).__mro__]
    status = next((STATUS[code] for code in codes if code in STATUS), 500)
    if status == 500:
        return problem_of.dispatch(Exception)(exc)
    if status == 404:
        return Problem(status=404, code="not_found", detail=str(NotFoundError()))
    named = getattr(exc, "field", None)
    errors = (FieldError(field=named, code=exc.code, detail=exc.detail),) if named else ()
    extra = {name: getattr(exc, name) for name in _TOLD if hasattr(exc, name)}
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if wait := getattr(exc, "retry_after_seconds", None):
        headers["Retry-After"] = str(wait)
    return Problem(
        status=status, code=exc.code, detail=exc.detail, errors=errors, extra=extra, headers=headers
    )


@problem_of.register
def _of_framework(exc: APIException) -> Problem:
    for kind, code, detail in _FRAMEWORK:
        if isinstance(exc, kind):
            headers = {"WWW-Authenticate": "Bearer"} if code == "unauthenticated" else {}
            if (wait := getattr(exc, "wait", None)) is not None:
                headers = {"Retry-After": str(max(1, round(wait)))}
            return Problem(status=STATUS[code], code=code, detail=detail, headers=headers)
    return Problem(status=400, code="bad_request", detail="The request can not be read.")


@problem_of.register
def _of_validation(exc: ValidationError) -> Problem:
    """List every field that is wrong; the code is `unknown_field` as soon as one is unknown."""
    errors = tuple(_flat(exc.detail, ""))
    codes = {error.code for error in errors}
    code = next((code for code in _SPEAKING if code in codes), "invalid")
    first = next((error for error in errors if error.code == code), errors[0] if errors else None)
    detail = f"{first.field}: {first.detail}" if first else "The request does not fit."
    return Problem(status=400, code=code, detail=detail, errors=errors)


def _flat(detail: Any, path: str) -> Iterator[FieldError]:
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            yield from _flat(inner, _joined(path, name))
    elif isinstance(detail, list):
        for index, inner in enumerate(detail):
            is_leaf = not isinstance(inner, Mapping | list)
            yield from _flat(inner, path if is_leaf else _joined(path, index))
    else:
        code = str(getattr(detail, "code", "invalid"))
        yield FieldError(field=path, code=code, detail=str(detail))


def _joined(path: str, name: object) -> str:
    if name == "non_field_errors":
        return path
    return f"{path}.{str(name)[:64]}" if path else str(name)[:64]


@problem_of.register(Http404)
def _of_missing(_exc: Http404) -> Problem:
    return Problem(status=404, code="not_found", detail=str(NotFoundError()))


@problem_of.register(PermissionDenied)
def _of_denied(_exc: PermissionDenied) -> Problem:
    return Problem(status=403, code="forbidden", detail="This key may not do that.")


@problem_of.register(SuspiciousOperation)
@problem_of.register(BadRequest)
def _of_bad_request(_exc: Exception) -> Problem:
    return Problem(status=400, code="bad_request", detail="The request can not be read.")


@problem_of.register
def _of_integrity(_exc: IntegrityError) -> Problem:
    detail = "This does not fit what is stored: it exists already, or is still in use."
    return Problem(status=409, code="conflict", detail=detail)


@problem_of.register(DataError)
@problem_of.register(ValueError)
def _of_value(_exc: Exception) -> Problem:
    return Problem(status=400, code="invalid_value", detail="A value is out of range.")


@problem_of.register(OperationalError)
@problem_of.register(InterfaceError)
def _of_database(_exc: Exception) -> Problem:
    return _UNAVAILABLE


@problem_of.register
def _of_sql(exc: ProgrammingError) -> Problem:
    if getattr(exc.__cause__, "sqlstate", None) == _ROW_REFUSED:
        return Problem(status=403, code="forbidden", detail="This key may not do that.")
    return problem_of.dispatch(Exception)(exc)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer an unknown URL; Django's handler404."""
    if is_api_path(request.path):
        return answer_to(Http404(), request=request)
    return defaults.page_not_found(request, exception)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a refusal outside the views; Django's handler403."""
    if is_api_path(request.path):
        return answer_to(PermissionDenied(), request=request)
    return defaults.permission_denied(request, exception)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request that Django itself refused; Django's handler400."""
    if is_api_path(request.path):
        return answer_to(BadRequest(), request=request)
    return defaults.bad_request(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer a fault outside the views; Django's handler500."""
    if is_api_path(request.path):
        return answer_to(RuntimeError("outside the views"), request=request)
    return defaults.server_error(request)
