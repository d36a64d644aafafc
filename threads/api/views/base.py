"""What all views share: who asks, checked paths, queries and bodies, pages of lists."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final, TypeVar
from urllib.parse import urlencode

from django.db.models import Model
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from governance import access
from governance.access import Principal
from governance.keys import UnauthenticatedError
from governance.models import KeyScope
from memory.errors import InvalidInputError, NotFoundError
from memory.ids import is_id
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.api.authentication import STANDING
from threads.api.fields import BadTimeError, read_time
from threads.api.pagination import InvalidParameterError, Page, fetch, page_request
from threads.api.requests import django_request
from threads.api.serializers.base import Answer, Body
from threads.api.strict_json import InvalidTextError, is_clean_text

M = TypeVar("M", bound=Model)
PAGING: Final = frozenset({"limit", "cursor"})
_PREFIXES: Final = {
    "agent_id": "ag",
    "artifact_id": "art",
    "core_candidate_id": "ccand",
    "document_id": "doc",
    "entity_candidate_id": "ecand",
    "entity_id": "ent",
    "erasure_id": "era",
    "export_id": "exp",
    "fact_id": "fact",
    "job_id": "job",
    "key_id": "key",
    "message_id": "msg",
    "provider_id": "prov",
    "run_id": "run",
    "sample_id": "smp",
    "team_id": "team",
    "thread_id": "th",
}


class UnknownParameterError(InvalidInputError):
    """This path has no such query parameter."""

    code = "unknown_parameter"


class AnyAccept(DefaultContentNegotiation):
    """Answers in the one format there is, whatever the client says it accepts."""

    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        """Return the only renderer."""
        only = next(iter(renderers))
        return only, only.media_type or ""


class ApiView(APIView):
    """A view that serves only the methods and query parameters it declares.

    Attributes:
        key_scopes: The scope a key needs, by method; a method without one is refused.
        parameters: The query parameters taken, by method; any other one is an error.
    """

    key_scopes: ClassVar[Mapping[str, KeyScope]] = {}
    parameters: ClassVar[Mapping[str, frozenset[str]]] = {}
    http_method_names = ["get", "head", "post", "put", "patch", "delete"]

    def key_scope_for(self, method: str) -> KeyScope | None:
        """Return the scope that a method needs on this very path; None refuses it."""
        return self.key_scopes.get(method)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Authenticate, check the key's scope, then path, query and body headers.

        Raises:
            CredenceError: For whatever does not fit; nothing was read or changed by then.
        """
        super().initial(request, *args, **kwargs)
        for name, value in kwargs.items():
            if name in _PREFIXES and not is_id(str(value), prefix=_PREFIXES[name]):
                raise NotFoundError
        self._check_query(request)
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise UnsupportedMediaType(request.headers["Content-Encoding"][:100])
        # The server has read the body whole; one that came in chunks has no length, which DRF
        # would take for an empty one.
        request.META["CONTENT_LENGTH"] = str(len(django_request(request).body))

    def finalize_response(
        self, request: Request, response: Any, *args: Any, **kwargs: Any
    ) -> Response:
        """Say in every answer what the key may still ask in this minute."""
        answer: Response = super().finalize_response(request, response, *args, **kwargs)
        standing = django_request(request).META.get(STANDING)
        for name, value in standing.headers().items() if standing else ():
            answer[name] = value
        return answer

    def _check_query(self, request: Request) -> None:
        method = "GET" if request.method == "HEAD" else str(request.method)
        allowed = self.parameters.get(method, frozenset())
        for name, values in request.query_params.lists():
            if name not in allowed:
                raise UnknownParameterError(field=name[:64])
            if not all(is_clean_text(str(value)) for value in values):
                raise InvalidTextError(field=name)
            if len(values) > 1:
                raise InvalidParameterError("Give this parameter once.", field=name)

    @property
    def principal(self) -> Principal:
        """Who asks."""
        if not isinstance(self.request.auth, Principal):
            raise UnauthenticatedError
        return self.request.auth

    @property
    def scope(self) -> Scope:
        """The principal's widest scope."""
        return access.tenant_scope(self.principal)

    def checked(self, body: type[Body]) -> dict[str, Any]:
        """Return the checked body.

        Raises:
            ValidationError: It does not fit; every wrong field is named.
            InvalidJSONError: It can not be read.
        """
        serializer = body(data=self.request.data if self._has_body() else {})
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)

    def _has_body(self) -> bool:
        return bool(django_request(self.request).body)

    def word(self, name: str, *, choices: Collection[str], default: str | None) -> str | None:
        """Return a query parameter that is one of some words.

        Raises:
            InvalidParameterError: It is none of them.
        """
        value = self.request.query_params.get(name, default)
        if value is not None and value not in choices:
            detail = f"{name} is one of: {', '.join(choices)}."
            raise InvalidParameterError(detail, field=name)
        return value

    def moment(self, name: str) -> datetime | None:
        """Return a query parameter that is a time; a plain date is its first moment, in UTC.

        Raises:
            InvalidParameterError: It is neither.
        """
        value = self.request.query_params.get(name)
        if value is None:
            return None
        try:
            return read_time(f"{value}T00:00:00Z" if len(value) == 10 else value)
        except BadTimeError as error:
            raise InvalidParameterError(error.detail, field=name) from error

    def paged(
        self, rows: ScopedQuerySet[M], *, order: Sequence[str], answer: type[Answer]
    ) -> Response:
        """Answer one page of a decided query. Cost: one statement, one more a prefetch."""
        return self.paged_together((rows,), order=order, answer=answer)

    def paged_together(
        self,
        sources: Sequence[ScopedQuerySet[Any]],
        *,
        order: Sequence[str],
        answer: type[Answer],
    ) -> Response:
        """Answer one page of several queries in one order. Cost: one statement each."""
        request = self.request
        wanted = page_request(
            principal_id=self.principal.id, path=request.path, query=request.query_params
        )
        with scoped_transaction(self.scope):
            page = fetch(sources=sources, order=order, wanted=wanted)
            results = answer(page.rows, many=True).data
        return Response({"results": results, **self._links(page)})

    def _links(self, page: Page) -> dict[str, str | None]:
        return {
            "next": self._link(page.next) if page.next else None,
            "previous": self._link(page.previous) if page.previous else None,
        }

    def _link(self, cursor: str) -> str:
        query = {**self.request.query_params.dict(), "cursor": cursor}
        path = django_request(self.request).get_full_path().partition("?")[0]
        return self.request.build_absolute_uri(f"{path}?{urlencode(query)}")
