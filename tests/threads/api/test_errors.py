"""What went wrong and what the client is told: one table, and nothing of the inside."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import DataError, IntegrityError, InterfaceError, OperationalError, ProgrammingError
from django.http import Http404
from django.test import Client
from rest_framework import exceptions

import governance
import memory
import threads
from governance.knowledge.problems import ReadersBusyError
from memory.errors import ConflictError, CredenceError, InvalidInputError, NotFoundError, ScopeError
from threads.api import errors
from threads.api.errors import STATUS, answer_to, problem_of

SECRET = 'duplicate key "threads_agent" Key (name)=(CNRY-A) already exists; SELECT password'


class _RefusedRowError(ProgrammingError):
    def __init__(self) -> None:
        super().__init__(SECRET)
        self.__cause__ = type("Cause", (Exception,), {"sqlstate": "42501"})()


def test_busy_reader_says_when_to_come_again(rf: Any) -> None:
    answer = answer_to(ReadersBusyError(), request=rf.get("/v1/users"))
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (IntegrityError(SECRET), 409, "conflict"),
        (DataError(SECRET), 400, "invalid_value"),
        (ValueError(SECRET), 400, "invalid_value"),
        (OperationalError(SECRET), 503, "database_unavailable"),
        (InterfaceError(SECRET), 503, "database_unavailable"),
        (ProgrammingError(SECRET), 500, "internal_error"),
        (_RefusedRowError(), 403, "forbidden"),
        (RecursionError(SECRET), 500, "internal_error"),
        (KeyError(SECRET), 500, "internal_error"),
        (Http404(SECRET), 404, "not_found"),
        (PermissionDenied(SECRET), 403, "forbidden"),
        (SuspiciousOperation(SECRET), 400, "bad_request"),
        (exceptions.ParseError(SECRET), 400, "bad_request"),
        (exceptions.Throttled(3, SECRET), 429, "rate_limited"),
        (exceptions.NotAuthenticated(SECRET), 401, "unauthenticated"),
        (ScopeError(SECRET), 500, "internal_error"),
        (NotFoundError(SECRET), 404, "not_found"),
    ],
)
def test_case_34_answers_say_nothing_of_the_inside(
    error: Exception, status: int, code: str, rf: Any
) -> None:
    """Case 34 and bug report M8: no error text of the inside."""
    answer = answer_to(error, request=rf.get("/v1/users"))
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    assert f'"code":"{code}"' in answer.content.decode()
    for word in ("CNRY", "threads_agent", "SELECT", "duplicate"):
        assert word not in answer.content.decode()


def test_retry_and_authentication_headers_are_told() -> None:
    assert problem_of(exceptions.Throttled(3)).headers == {"Retry-After": "3"}
    assert problem_of(OperationalError()).headers == {"Retry-After": "2"}
    assert problem_of(exceptions.NotAuthenticated()).headers == {"WWW-Authenticate": "Bearer"}


def test_domain_error_without_a_line_of_its_own_has_its_parents_status() -> None:
    class ShelfFullError(ConflictError):
        """The shelf is full."""

        code = "shelf_full"

    found = problem_of(ShelfFullError())
    assert (found.status, found.code, found.detail) == (409, "shelf_full", "The shelf is full.")


def _kinds(root: type[CredenceError]) -> Iterator[type[CredenceError]]:
    for kind in root.__subclasses__():
        if kind.__module__.startswith(("threads.", "governance.", "memory.")):
            yield kind
        yield from _kinds(kind)


def _load_all_modules() -> None:
    for package in (threads, governance, memory):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(found.name)


def test_every_code_a_client_can_be_told_is_in_the_table() -> None:
    _load_all_modules()
    told = [*_kinds(InvalidInputError), *_kinds(ConflictError), *_kinds(NotFoundError)]
    assert len(told) > 15
    only_in_files = {"bad_line"}  # the importer's, which no route runs
    only_in_rooms = {
        "no_rows",
        "too_many_rows",
        "invalid_rows",
        "unknown_decision",
        "reason_needed",
    }
    assert {kind.code for kind in told} - set(STATUS) == only_in_files | only_in_rooms


def test_errors_outside_the_views_are_problems_under_the_api_only(rf: Any) -> None:
    for handler, arguments, status in (
        (errors.not_found, (Http404(),), 404),
        (errors.forbidden, (PermissionDenied(),), 403),
        (errors.bad_request, (SuspiciousOperation(),), 400),
        (errors.server_error, (), 500),
    ):
        ours = handler(rf.get("/v1/x"), *arguments)
        assert (ours.status_code, ours["Content-Type"]) == (status, "application/problem+json")
        theirs = handler(rf.get("/admin/x"), *arguments)
        assert theirs.status_code == status
        assert theirs["Content-Type"].startswith("text/html")


def test_host_that_is_not_ours_answers_a_problem(db: None, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["credence.example"]
    answer = Client().get("/v1/users", headers={"Host": "evil.example"})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    assert "evil" not in answer.content.decode()
    assert answer["X-Request-Id"]
