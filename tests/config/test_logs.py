"""Log lines: one JSON object each, of ids and codes; never a path, a parameter or an error's text."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from django.test import RequestFactory

from config.logs import JsonFormatter, NotUnready


def line(logger: str, message: str, *args: Any, **extra: Any) -> dict[str, Any]:
    info = extra.pop("exc_info", None)
    record = logging.LogRecord(logger, logging.ERROR, __file__, 1, message, args, info)
    record.__dict__.update(extra)
    text = JsonFormatter().format(record)
    assert "\n" not in text
    made: dict[str, Any] = json.loads(text)
    return made


def test_refused_request_is_logged_by_route_and_id_without_its_path() -> None:
    request = RequestFactory().get("/v1/users/teacher-7/export?q=secret")
    request.META["credence.request_id"] = "req-1"
    said = line(
        "django.request", "%s: %s", "Bad Request", request.path, request=request, status_code=400
    )
    assert (said["event"], said["request_id"], said["status_code"]) == (
        "request refused",
        "req-1",
        400,
    )
    assert (said["method"], said["route"]) == ("GET", "unmatched")
    assert "teacher-7" not in json.dumps(said)


def test_other_libraries_messages_come_without_their_parameters() -> None:
    assert (
        line("django.security", "Forbidden (%s): %s", "why", "/a/b")["event"] == "Forbidden (…): …"
    )


def test_exception_is_logged_by_type_and_place_not_by_its_text_case_178() -> None:
    try:
        int("CNRY-text")
    except ValueError:
        said = line("credence.runs", "run failed", exc_info=sys.exc_info(), run_id="run_1")
    assert (said["exception"], said["run_id"]) == ("ValueError", "run_1")
    assert said["trace"][-1].startswith("test_logs.py:")
    assert "CNRY" not in json.dumps(said)


def test_line_break_and_escape_inside_a_message_stay_inside_its_line_case_85() -> None:
    hostile = '\n{"level":"info","event":"approved"}\x1b[31m'
    assert line("credence.x", hostile)["event"] == hostile


def test_probe_that_finds_the_service_not_ready_is_no_error() -> None:
    record = logging.LogRecord("django.request", logging.ERROR, __file__, 1, "x", (), None)
    record.__dict__["status_code"] = 503
    assert not NotUnready().filter(record)
    record.__dict__["status_code"] = 500
    assert NotUnready().filter(record)
