"""Sending generated requests through Django's test client, in the test's own transaction."""

from __future__ import annotations

from typing import Any

import requests
from django.test import Client
from schemathesis.core.transport import Response

_HOST = "http://testserver"
_SENT = ("method", "url", "headers", "cookies", "params", "data", "json", "files")


def ask(case: Any, headers: dict[str, str]) -> Response:
    """Send one generated request with these headers and return what was answered."""
    options = case.as_transport_kwargs(base_url=_HOST, headers=headers)
    request = requests.Request(**{name: options[name] for name in _SENT if name in options})
    sent = request.prepare()
    body = sent.body or b""
    kept = {name: _text(value) for name, value in sent.headers.items() if name != "Content-Length"}
    answer = Client().generic(
        str(sent.method),
        sent.path_url,
        body.encode() if isinstance(body, str) else body,
        kept.pop("Content-Type", ""),
        headers=kept,
    )
    return Response(
        status_code=answer.status_code,
        headers={name.lower(): [value] for name, value in answer.items()},
        content=answer.content,
        request=sent,
        elapsed=0.0,
        verify=False,
    )


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin1")
