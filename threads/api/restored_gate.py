"""The gate in front of API and admin while a restored database holds persons who were erased."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext

from governance.erasure.restored import refuse_if_restored
from memory.errors import CredenceError
from threads.api.errors import problem_of
from threads.api.middleware import is_api_path
from threads.api.problems import problem_response

_GATED: Final = ("/v1/", "/admin/", "/chat/")
_OPEN: Final = frozenset({"/v1/openapi.json", "/v1/docs"})
_log = logging.getLogger("credence.api")


class RestoredGateMiddleware:
    """Answers 503 instead of serving; health, readiness and the API's description stay open."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        """Keep the rest of the stack."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Serve the request, or refuse it. Cost: mostly a look at the clock."""
        path = request.path
        if path.startswith(_GATED) and path not in _OPEN:
            try:
                refuse_if_restored()
            except (CredenceError, DatabaseError, InterfaceError, OSError) as error:
                return _refusal(request, error)
        return self.get_response(request)


def _refusal(request: HttpRequest, error: Exception) -> HttpResponse:
    """Refuse also where nobody can tell: without the ledger's word nothing is served."""
    code = error.code if isinstance(error, CredenceError) else type(error).__name__
    _log.warning("gate_closed", extra={"code": code})
    if is_api_path(request.path):
        return problem_response(problem_of(error), request=request)
    text = gettext(
        "The database was restored from an older backup."
        " Nothing is served until manage.py reapply_erasures has run."
    )
    return HttpResponse(text, status=503, content_type="text/plain; charset=utf-8")
