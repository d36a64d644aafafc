"""Persons: exporting all that is known of them, erasing them with a receipt, legal holds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import IO, Any, Final

from django.http import StreamingHttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from governance.export import Export, open_link, service
from governance.export.service import ErasureWish
from governance.models import ErasureMode, KeyScope
from threads.api.once import idempotent
from threads.api.pagination import InvalidParameterError
from threads.api.schema import operation, parameter, time_parameter
from threads.api.serializers.base import Nothing
from threads.api.serializers.people import (
    ErasureAcceptedAnswer,
    ErasureAnswer,
    HoldAnswer,
    LinkAnswer,
    NewChatLinkBody,
    NewHoldBody,
    NewLinkBody,
    PreviewAnswer,
)
from threads.api.views.base import PAGING, ApiView
from threads.api.views.service import OpenView
from threads.chat_links import link_path, open_seat

NDJSON: Final = "application/x-ndjson"
_PIECE_BYTES: Final = 64 * 1024
_WORDS: Final = ("true", "false")
_WHO: Final = "`user` is the percent-encoded user_id or the `usr_` id."


def file_answer(export: Export, *, name: str) -> StreamingHttpResponse:
    """Return an export as a download; its file is closed when the answer is."""
    response = StreamingHttpResponse(_Pieces(export.file), content_type=NDJSON)
    response["Content-Length"] = str(export.size)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["Cache-Control"] = "private, no-store"
    response["Referrer-Policy"] = "no-referrer"
    return response


class _Pieces:
    """A file in pieces; closed with the answer, also where nobody has read from it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        """Return itself."""
        return self

    def __next__(self) -> bytes:
        """Return the next piece."""
        if piece := self._file.read(_PIECE_BYTES):
            return piece
        raise StopIteration

    def close(self) -> None:
        """Let the file go."""
        self._file.close()


class PersonView(ApiView):
    """DELETE /v1/users/{user}."""

    key_scopes = {"DELETE": KeyScope.ERASE}
    parameters = {"DELETE": frozenset({"mode", "kinds", "before", "dry_run"})}

    @operation(
        "erase_user",
        tag="People",
        summary="Erase a person, or what is tagged as personal in their texts",
        description=f"Begins at once and goes on by itself; `GET /v1/erasures/{{id}}` tells how far"
        f" it is. Asked for again while it runs, it is the same one. {_WHO} With `dry_run=true` it"
        " answers 200 with the counts and does nothing.",
        answer=ErasureAcceptedAnswer,
        status=202,
        problems=(409,),
        codes={409: ("legal_hold", "erasure_running")},
        parameters=(
            parameter("mode", "Needed.", choices=ErasureMode.values),
            parameter("kinds", "With tagged: only these, split at commas."),
            time_parameter("before", "With tagged: only texts from before this time."),
            parameter("dry_run", "Count only.", choices=_WORDS),
        ),
    )
    def delete(self, request: Request, user: str) -> Response:
        """Ask for the erasure, or count what would go."""
        wish = self._wish()
        if self.word("dry_run", choices=_WORDS, default="false") == "true":
            found = service.preview(principal=self.principal, user_id=user, wish=wish)
            shown = {
                "mode": wish.mode,
                "counts": found.counts,
                "total": found.total,
                "is_held": found.is_held,
            }
            return Response(PreviewAnswer(shown).data)
        erasure = service.erase(
            principal=self.principal, user_id=user, wish=wish, now=timezone.now()
        )
        return Response(ErasureAcceptedAnswer(erasure).data, status=202)

    def _wish(self) -> ErasureWish:
        mode = self.word("mode", choices=ErasureMode.values, default=None)
        if mode is None:
            raise InvalidParameterError("mode is needed: all or tagged.", field="mode")
        given = str(self.request.query_params.get("kinds", ""))
        kinds = tuple(word.strip() for word in given.split(",") if word.strip())
        return ErasureWish(mode=ErasureMode(mode), kinds=kinds, before_at=self.moment("before"))


class ExportView(ApiView):
    """GET /v1/users/{user}/export."""

    key_scopes = {"GET": KeyScope.ERASE}

    @operation(
        "export_user",
        tag="People",
        summary="Read all that is known of a person, as JSON lines",
        description="The first line says whose it is and of when, the last one counts the lines"
        f" and has their SHA-256. {_WHO} An unknown person has these two lines only.",
        answer={"type": "string", "description": "One JSON object a line."},
        media_type=NDJSON,
    )
    def get(self, request: Request, user: str) -> StreamingHttpResponse:
        """Write the export, then send it."""
        now = timezone.now()
        export = service.export_of(principal=self.principal, user_id=user, now=now)
        return file_answer(export, name=f"export-{now:%Y%m%dT%H%M%SZ}.jsonl")


class ExportsView(ApiView):
    """POST /v1/users/{user}/exports."""

    key_scopes = {"POST": KeyScope.ERASE}

    @operation(
        "create_export_link",
        tag="People",
        summary="Make a link to a person's export that ends by itself",
        description="Whoever has the address can fetch the export until then. The export is made"
        f" when it is fetched, so it tells the state of that moment. {_WHO}",
        body=NewLinkBody,
        answer=LinkAnswer,
        status=201,
        problems=(409,),
        codes={409: ("idempotency_conflict",)},
        is_idempotent=True,
    )
    @idempotent(hidden=("url",))
    def post(self, request: Request, user: str) -> Response:
        """Make the link."""
        body = self.checked(NewLinkBody)
        made = service.link_of(principal=self.principal, user_id=user, now=timezone.now(), **body)
        self.answered_person_id = made.link.end_user_id
        shown = {
            "id": made.link.pk,
            "url": request.build_absolute_uri(made.path),
            "expires_at": made.link.expires_at,
        }
        return Response(LinkAnswer(shown).data, status=201)


class ExportLinkView(ApiView):
    """DELETE /v1/exports/{export_id}."""

    key_scopes = {"DELETE": KeyScope.ERASE}

    @operation("delete_export_link", tag="People", summary="End a link", status=204)
    def delete(self, request: Request, export_id: str) -> Response:
        """End it; again changes nothing."""
        service.end_link(principal=self.principal, link_id=export_id, now=timezone.now())
        return Response(status=204)


class ChatLinksView(ApiView):
    """POST /v1/users/{user}/chat-links."""

    key_scopes = {"POST": KeyScope.ADMIN}
    answered_person_id: str | None = None

    @operation(
        "create_chat_link",
        tag="People",
        summary="Make a link to the chat page for one person and one agent",
        description="Whoever opens the address talks to the agent as this person, sees the person's"
        " conversations with it and decides about the person's memory, until the link ends. `id` is"
        " the key behind it: `DELETE /v1/keys/{id}` ends the link and the pages it opened. The person"
        f" is created on first write. {_WHO}",
        body=NewChatLinkBody,
        answer=LinkAnswer,
        status=201,
        problems=(409,),
        codes={409: ("idempotency_conflict",)},
        is_idempotent=True,
    )
    @idempotent(hidden=("url",))
    def post(self, request: Request, user: str) -> Response:
        """Make the link."""
        body = self.checked(NewChatLinkBody)
        key = open_seat(
            scope=self.scope,
            agent_id=body["agent_id"],
            user_id=user,
            now=timezone.now(),
            lasts=timedelta(seconds=body["expires_in_seconds"]),
            is_shared=False,
        )
        self.answered_person_id = key.end_user_id
        shown = {
            "id": key.pk,
            "url": request.build_absolute_uri(link_path(key)),
            "expires_at": key.expires_at,
        }
        return Response(LinkAnswer(shown).data, status=201)


class HoldView(ApiView):
    """POST, DELETE /v1/users/{user}/hold."""

    key_scopes = {"POST": KeyScope.ERASE, "DELETE": KeyScope.ERASE}

    @operation(
        "place_hold",
        tag="People",
        summary="Put a person under legal hold: nothing of theirs is erased",
        description=f"The same again answers the hold there is. {_WHO}",
        body=NewHoldBody,
        answer=HoldAnswer,
        problems=(409,),
        codes={409: ("erasure_running", "idempotency_conflict")},
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, user: str) -> Response:
        """Place the hold."""
        body = self.checked(NewHoldBody)
        hold = service.hold(principal=self.principal, user_id=user, now=timezone.now(), **body)
        self.answered_person_id = hold.subject_id
        return Response(HoldAnswer(hold).data)

    @operation("release_hold", tag="People", summary="Release a person's legal hold", status=204)
    def delete(self, request: Request, user: str) -> Response:
        """Release it, if there is one."""
        service.release(principal=self.principal, user_id=user, now=timezone.now())
        return Response(status=204)


class ErasuresView(ApiView):
    """GET /v1/erasures."""

    key_scopes = {"GET": KeyScope.ERASE}
    parameters = {"GET": PAGING}

    @operation(
        "list_erasures",
        tag="People",
        summary="List erasures, newest first",
        answer=ErasureAnswer,
        is_paged=True,
    )
    def get(self, request: Request) -> Response:
        """Return a page."""
        rows = service.erasures_of(principal=self.principal).defer("sealed_needles")
        return self.paged(rows, order=("-created_at", "-id"), answer=ErasureAnswer)


class ErasureView(ApiView):
    """GET /v1/erasures/{erasure_id}."""

    key_scopes = {"GET": KeyScope.ERASE}

    @operation(
        "read_erasure",
        tag="People",
        summary="Read how far an erasure is, and its receipt",
        description="`verified` is `pending` until every column of every table was searched for"
        " the person; `receipt_sha256` is the hash of `receipt` as canonical JSON.",
        answer=ErasureAnswer,
    )
    def get(self, request: Request, erasure_id: str) -> Response:
        """Return it."""
        erasure = service.erasure_of(principal=self.principal, erasure_id=erasure_id)
        return Response(ErasureAnswer(erasure).data)


class ErasureRetryView(ApiView):
    """POST /v1/erasures/{erasure_id}/retry."""

    key_scopes = {"POST": KeyScope.ERASE}

    @operation(
        "retry_erasure",
        tag="People",
        summary="Let a failed erasure go on where it stopped",
        body=Nothing,
        answer=ErasureAnswer,
        problems=(409,),
        codes={
            409: ("erasure_not_failed", "erasure_running", "legal_hold", "idempotency_conflict")
        },
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, erasure_id: str) -> Response:
        """Retry."""
        self.checked(Nothing)
        erasure = service.retry(principal=self.principal, erasure_id=erasure_id, now=timezone.now())
        return Response(ErasureAnswer(erasure).data)


class ExportDownloadView(OpenView):
    """GET /exports/{token}: for whoever has the link, without a key."""

    http_method_names = ["get"]

    @extend_schema(exclude=True)
    def get(self, request: Request, token: str) -> Any:
        """Make the export and send it; a link that has ended looks like one that never was."""
        now = timezone.now()
        export = open_link(token=token, now=now)
        return file_answer(export, name=f"export-{now:%Y%m%dT%H%M%SZ}.jsonl")
