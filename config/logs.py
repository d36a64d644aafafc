"""Structured logs: one JSON object a line, of ids, codes and counts; never text or parameters."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

_FIELDS = (
    "request_id",
    "run_id",
    "job_id",
    "tenant_id",
    "code",
    "status",
    "status_code",
    "ms",
    "lane",
)


class JsonFormatter(logging.Formatter):
    """Renders a record as one line of JSON; line breaks and escapes inside stay inside a string."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line.

        Of an exception only type and place are written: its text may quote the row it choked on.
        """
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _event(record),
        }
        line |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        line |= _request(record)
        if record.exc_info and record.exc_info[0]:
            line["exception"] = record.exc_info[0].__name__
            line["trace"] = _places(record)
        return json.dumps(line, ensure_ascii=False, default=lambda value: type(value).__name__)


def _event(record: logging.LogRecord) -> str:
    """Return what happened; of other libraries' messages the words without their parameters."""
    if record.name.startswith("credence"):
        return record.getMessage()
    if record.name == "django.request":
        return "request refused"  # its message is the path, which may name a person
    return str(record.msg).replace("%s", "…").replace("%r", "…").replace("%d", "…")


def _request(record: logging.LogRecord) -> dict[str, object]:
    """Return which route was asked and under which id, from the request Django puts on a record."""
    request = getattr(record, "request", None)
    meta = getattr(request, "META", None)
    if not isinstance(meta, dict):
        return {}
    match = getattr(request, "resolver_match", None)
    return {
        "method": getattr(request, "method", ""),
        "route": getattr(match, "route", "") or "unmatched",
        "request_id": meta.get("credence.request_id", ""),
    }


class NotUnready(logging.Filter):
    """Drops Django's line about each 503: a probe of /readyz that is not ready is no error."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether to keep the record."""
        return getattr(record, "status_code", None) != 503


def _places(record: logging.LogRecord) -> list[str]:
    frames = []
    step = record.exc_info[2] if record.exc_info else None
    while step is not None:
        code = step.tb_frame.f_code
        frames.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{step.tb_lineno} {code.co_name}")
        step = step.tb_next
    return frames[-8:]
