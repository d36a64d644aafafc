"""Documents of the knowledge base: handing them in, deciding about them, reading and deleting."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any, Final

from django.core.files.uploadedfile import UploadedFile
from django.utils import timezone
from django.utils.functional import cached_property
from rest_framework.request import Request
from rest_framework.response import Response

from governance import access
from governance.knowledge import documents
from governance.knowledge.admission import MOST_TITLE_CHARACTERS
from governance.knowledge.documents import Filters, Upload
from governance.knowledge.reading import MEDIA_TYPES
from governance.models import KeyScope
from memory.errors import InvalidInputError
from memory.models import DocumentStatus
from memory.sanitize import sanitize
from memory.scope import Scope
from threads.api.forms import FormParser
from threads.api.once import idempotent
from threads.api.parsers import StrictJSONParser
from threads.api.schema import operation, parameter
from threads.api.serializers.base import Nothing
from threads.api.serializers.knowledge import (
    DocumentAnswer,
    NewDocumentBody,
    NewFileBody,
    RefusalBody,
    WholeDocumentAnswer,
)
from threads.api.views.base import PAGING, ApiView

# What clients send that do not know better; the name's ending tells then.
_NO_TYPE: Final = frozenset(("", "application/octet-stream", "binary/octet-stream"))
_ENDINGS: Final = {
    ".txt": "text/plain",
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".htm": "text/html",
    ".html": "text/html",
    ".pdf": "application/pdf",
}


class UnreadTypeError(InvalidInputError):
    """A file is text/plain, text/markdown, text/html or application/pdf."""

    code = "unsupported_media_type"


class _KnowledgeView(ApiView):
    """Base of these views: a key of one person reaches that person's teams."""

    answered_person_id: str | None = None

    @cached_property
    def scope(self) -> Scope:
        """The principal's widest scope, its teams with it."""
        return access.widest_scope(self.principal)


class DocumentsView(_KnowledgeView):
    """GET, POST /v1/knowledge/documents."""

    key_scopes = {"GET": KeyScope.READ, "POST": KeyScope.WRITE}
    parameters = {"GET": PAGING | {"user_id", "team", "status", "kind"}}
    parser_classes = (StrictJSONParser, FormParser)

    @operation(
        "list_documents",
        tag="Knowledge",
        summary="List documents, newest first",
        answer=DocumentAnswer,
        is_paged=True,
        parameters=(
            parameter("user_id", "Only this person's."),
            parameter("team", "Only this team's, by id or name."),
            parameter("status", "Only those that stand so.", choices=DocumentStatus.values),
            parameter("kind", "Only those of this kind."),
        ),
    )
    def get(self, request: Request) -> Response:
        """Return a page; an unknown person or team has no documents."""
        query = request.query_params
        filters = Filters(
            user_id=query.get("user_id"),
            team=query.get("team"),
            status=self.word("status", choices=DocumentStatus.values, default=None),
            kind=query.get("kind"),
        )
        rows = documents.documents_of(principal=self.principal, filters=filters)
        return self.paged(rows, order=("-created_at", "-id"), answer=DocumentAnswer)

    @operation(
        "submit_document",
        tag="Knowledge",
        summary="Hand in a document",
        description="As text in JSON, or as a file (text, Markdown, HTML or PDF, up to 20 MiB and"
        " 2,000,000 characters of text). It waits as `pending` unless policy admits at once. The"
        " same text of the same owner, kind and date again answers 200 with the document there is.",
        body={"application/json": NewDocumentBody, "multipart/form-data": NewFileBody},
        answer=DocumentAnswer,
        status=201,
        also={200: "The document that this text is already"},
        problems=(409, 422),
        codes={422: ("not_admitted",), 409: ("idempotency_conflict",)},
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request) -> Response:
        """Read, pass through the gate, store."""
        is_form = (
            str(request.content_type).partition(";")[0].strip().lower() == "multipart/form-data"
        )
        upload = _from_form(self.checked(NewFileBody)) if is_form else self._from_json()
        document, is_new = documents.submit(
            principal=self.principal, upload=upload, now=timezone.now()
        )
        self.answered_person_id = document.end_user_id
        return Response(DocumentAnswer(document).data, status=201 if is_new else 200)

    def _from_json(self) -> Upload:
        body = self.checked(NewDocumentBody)
        return Upload(raw=body.pop("content").encode(), **body)


class DocumentView(_KnowledgeView):
    """GET, DELETE /v1/knowledge/documents/{document_id}."""

    key_scopes = {"GET": KeyScope.READ, "DELETE": KeyScope.WRITE}

    @operation(
        "read_document", tag="Knowledge", summary="Read a document", answer=WholeDocumentAnswer
    )
    def get(self, request: Request, document_id: str) -> Response:
        """Return the document with its text."""
        document = documents.read_document(principal=self.principal, document_id=document_id)
        return Response(WholeDocumentAnswer(document).data)

    @operation("delete_document", tag="Knowledge", summary="Delete a document", status=204)
    def delete(self, request: Request, document_id: str) -> Response:
        """Delete it, and all that was found of it."""
        documents.delete(principal=self.principal, document_id=document_id, now=timezone.now())
        return Response(status=204)


class AdmitView(_KnowledgeView):
    """POST /v1/knowledge/documents/{document_id}/admit."""

    key_scopes = {"POST": KeyScope.GOVERN}

    @operation(
        "admit_document",
        tag="Knowledge",
        summary="Admit a document that waits",
        description="From then on it is found, once the worker has indexed it.",
        body=Nothing,
        answer=DocumentAnswer,
        problems=(409,),
        codes={409: ("already_decided", "idempotency_conflict")},
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, document_id: str) -> Response:
        """Admit; again changes nothing."""
        self.checked(Nothing)
        document = documents.admit(
            principal=self.principal, document_id=document_id, now=timezone.now()
        )
        self.answered_person_id = document.end_user_id
        return Response(DocumentAnswer(document).data)


class RefuseView(_KnowledgeView):
    """POST /v1/knowledge/documents/{document_id}/refuse."""

    key_scopes = {"POST": KeyScope.GOVERN}

    @operation(
        "refuse_document",
        tag="Knowledge",
        summary="Refuse a document that waits",
        body=RefusalBody,
        answer=DocumentAnswer,
        problems=(409,),
        codes={409: ("already_decided", "idempotency_conflict")},
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, document_id: str) -> Response:
        """Refuse; again changes nothing."""
        reason = self.checked(RefusalBody)["reason"]
        document = documents.refuse(
            principal=self.principal, document_id=document_id, reason=reason, now=timezone.now()
        )
        self.answered_person_id = document.end_user_id
        return Response(DocumentAnswer(document).data)


def _from_form(body: dict[str, Any]) -> Upload:
    file: UploadedFile[bytes] = body.pop("file")
    title = body.pop("title") or _title_of(file)
    return Upload(raw=file.read(), media_type=_media_type(file), title=title, **body)


def _media_type(file: UploadedFile[bytes]) -> str:
    """Return the type that a file's part states, or else that its name's ending stands for.

    Raises:
        UnreadTypeError: It is none that is read.
    """
    stated = (file.content_type or "").partition(";")[0].strip().lower()
    if stated in _NO_TYPE:
        stated = _ENDINGS.get(PurePosixPath(file.name or "").suffix.lower(), stated)
    if stated not in MEDIA_TYPES:
        raise UnreadTypeError
    return stated


def _title_of(file: UploadedFile[bytes]) -> str:
    """Return a file's name as a title: nothing invisible, no path, at most 300 characters."""
    name = " ".join(sanitize(file.name or "").text.split())
    return name[:MOST_TITLE_CHARACTERS] or "document"
