"""Idempotency-Key at the edge: claim, wait for whoever came first, replay.

Waiting happens on the event loop: it holds no thread and no connection.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, Protocol

import re2
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from memory.db_threads import in_database_thread
from memory.errors import InvalidInputError
from memory.scope import Scope
from threads import idempotency
from threads.api.deferred import DeferredResponse
from threads.api.errors import answer_to
from threads.api.renderers import to_json
from threads.api.requests import django_request
from threads.idempotency import Claimed, Found, Stored

P = ParamSpec("P")
WAIT_SECONDS: Final = 0.1
REPLAYED: Final = "Idempotency-Replayed"
_LEASE_SECONDS: Final = 60.0
_KEY = re2.compile(r"^[!-~]([ -~]{0,253}[!-~])?$")


class KeyedView(Protocol):
    """What is needed of a view whose POST takes a key."""

    request: Request

    @property
    def scope(self) -> Scope:
        """Names tenant and principal."""
        ...

    def finalize_response(self, request: Request, response: Response) -> HttpResponseBase:
        """Make the response ready to be rendered."""
        ...


class InvalidIdempotencyKeyError(InvalidInputError):
    """An Idempotency-Key has 1 to 255 visible ASCII characters."""

    code = "invalid_idempotency_key"


def idempotency_key(request: HttpRequest | Request) -> str | None:
    """Return the key that came with a request, if any.

    Raises:
        InvalidIdempotencyKeyError: It is empty, too long, or not visible ASCII.
    """
    key = request.headers.get("Idempotency-Key")
    if key is not None and not _KEY.match(key):
        raise InvalidIdempotencyKeyError
    return key


def request_hash(request: HttpRequest) -> str:
    """Return the hash of method, path with query, and body.

    A form's boundary, which a client chooses anew each time, does not count.
    """
    digest = hashlib.sha256(f"{request.method} {request.get_full_path()}\n".encode())
    is_form = request.content_type == "multipart/form-data"
    boundary = (request.content_params or {}).get("boundary", "").encode() if is_form else b""
    body = request.body
    digest.update(body.replace(b"--" + boundary, b"--") if boundary else body)
    return digest.hexdigest()


def replay(stored: Stored) -> HttpResponse:
    """Return a kept answer, marked as a replay."""
    response = HttpResponse(
        stored.body.encode(), status=stored.status_code, content_type=stored.content_type
    )
    response[REPLAYED] = "true"
    return response


def idempotent(
    *, hidden: tuple[str, ...] = ()
) -> Callable[
    [Callable[Concatenate[Any, Request, P], Response]],
    Callable[Concatenate[Any, Request, P], HttpResponseBase],
]:
    """Return a decorator for a POST method that makes its route take an Idempotency-Key.

    Args:
        hidden: Fields of the answer that are neither kept nor replayed.
    """

    def decorate(
        handler: Callable[Concatenate[Any, Request, P], Response],
    ) -> Callable[Concatenate[Any, Request, P], HttpResponseBase]:
        @wraps(handler)
        def once(
            view: Any, request: Request, /, *args: P.args, **kwargs: P.kwargs
        ) -> HttpResponseBase:
            key = idempotency_key(request)
            if key is None:
                return handler(view, request, *args, **kwargs)
            attempt = _Attempt(
                view, key, lambda: handler(view, request, *args, **kwargs), hidden=hidden
            )
            return attempt.respond() or DeferredResponse(attempt.wait)

        once.takes_idempotency_key = True  # type: ignore[attr-defined]
        return once

    return decorate


class _Attempt:
    """One request that carries a key."""

    def __init__(
        self,
        view: KeyedView,
        key: str,
        handle: Callable[[], Response],
        *,
        hidden: tuple[str, ...],
    ) -> None:
        self._view = view
        self._key = key
        self._handle = handle
        self._hidden = hidden
        self._scope: Scope = view.scope
        self._hash = request_hash(django_request(view.request))

    def respond(self) -> HttpResponseBase | None:
        """Carry out or replay; None while the first request is in flight. Blocks on the database."""
        found = self._claim()
        if isinstance(found, Stored):
            return replay(found)
        return self._carry_out(found.record_id) if isinstance(found, Claimed) else None

    async def wait(self) -> HttpResponseBase:
        """Ask again until the first request has ended, then answer."""
        request = django_request(self._view.request)
        try:
            while True:
                await asyncio.sleep(WAIT_SECONDS)
                response = await in_database_thread(self._respond_rendered)
                if response is not None:
                    return response
        except Exception as error:  # noqa: BLE001 - outside the views, so nobody else answers
            return answer_to(error, request=request)

    def _respond_rendered(self) -> HttpResponseBase | None:
        response = self.respond()
        if isinstance(response, Response):
            view = self._view
            view.finalize_response(view.request, response)
            response.render()
        return response

    def _claim(self) -> Found:
        return idempotency.claim(
            scope=self._scope,
            key=self._key,
            request_sha256=self._hash,
            now=timezone.now(),
            lease_seconds=_LEASE_SECONDS,
        )

    def _carry_out(self, record_id: str) -> HttpResponseBase:
        response: HttpResponseBase
        try:
            response = self._handle()
        except Exception as error:  # noqa: BLE001 - answered here as DRF would, to be kept
            response = answer_to(error, request=django_request(self._view.request))
        if response.status_code >= 500:
            idempotency.release(scope=self._scope, record_id=record_id)
        else:
            idempotency.keep(
                scope=self._scope,
                record_id=record_id,
                answer=self._stored(response),
                end_user_id=getattr(self._view, "answered_person_id", None),
            )
        return response

    def _stored(self, response: HttpResponseBase) -> Stored:
        if isinstance(response, Response):
            data = response.data
            if self._hidden and isinstance(data, dict):
                data = {name: value for name, value in data.items() if name not in self._hidden}
            body = "" if data is None else to_json(data)
            return Stored(
                status_code=response.status_code, content_type="application/json", body=body
            )
        return Stored(
            status_code=response.status_code,
            content_type=response.headers["Content-Type"],
            body=bytes(getattr(response, "content", b"")).decode(),
        )
