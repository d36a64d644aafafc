"""How views describe themselves for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, TypedDict, TypeVar, Unpack

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
    inline_serializer,
)
from rest_framework import serializers

from threads.api.errors import STATUS
from threads.api.serializers.base import Answer, Nothing, ProblemAnswer

# What an answer of 429 carries besides, documented at each operation.
_LIMIT_HEADERS: Final = tuple(
    OpenApiParameter(name, int, OpenApiParameter.HEADER, description=description, response=[429])
    for name, description in (
        ("Retry-After", "Seconds to wait before asking again."),
        ("RateLimit-Limit", "Requests that the key may make in a minute; not for wrong keys."),
        ("RateLimit-Remaining", "How many of them are left; also in every other answer."),
        ("RateLimit-Reset", "Seconds until the count begins anew."),
    )
)
F = TypeVar("F", bound=Callable[..., Any])
_ANYWHERE: Final = (400, 401, 403, 404, 429, 500, 503)
_WITH_BODY: Final = (408, 413, 415)
_IDEMPOTENCY: Final = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="1 to 255 visible characters: the same request again within 24 hours is answered"
    " as the first one was, and done once.",
)
PAGING_PARAMETERS: Final = (
    OpenApiParameter("limit", int, description="Rows a page, 1 to 200; 50 if not given."),
    OpenApiParameter("cursor", str, description="As `next` and `previous` carry it."),
)


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Describes the bearer key."""

    target_class = "threads.api.authentication.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """Return the security scheme."""
        return {"type": "http", "scheme": "bearer", "description": "An API key: `cr_…`."}


class KeyedSchema(AutoSchema):
    """Names, with each operation, the scope that a key needs for it (OpenAPI 3.1: its role)."""

    def get_auth(self) -> list[dict[str, list[str]]]:
        """Return the ways to authenticate, each with the scope of this view and method."""
        scope = getattr(self.view, "key_scopes", {}).get(self.method)
        ways: list[dict[str, list[str]]] = super().get_auth()
        return [{name: [str(scope)] for name in way} for way in ways] if scope else ways


class Details(TypedDict, total=False):
    """What else can be said of an operation.

    `codes` names the codes of a problem's status where fewer, or more, occur than the table maps to
    it; `also` the other good statuses, each with its description.
    """

    description: str
    problems: Sequence[int]
    codes: Mapping[int, Sequence[str]]
    also: Mapping[int, str]
    parameters: Sequence[OpenApiParameter]
    examples: Sequence[OpenApiExample]
    media_type: str
    is_paged: bool
    is_idempotent: bool


def operation(
    operation_id: str,
    *,
    tag: str,
    summary: str,
    answer: Any = None,
    body: type[Any] | Mapping[str, type[Any]] | None = None,
    status: int = 200,
    **details: Unpack[Details],
) -> Callable[[F], F]:
    """Return a decorator that documents one method of a view, with its problem answers."""
    is_paged = details.get("is_paged", False)
    refusals = {*_ANYWHERE, *details.get("problems", ()), *(_WITH_BODY if body else ())}
    responses: dict[Any, Any] = {
        (code, "application/problem+json"): OpenApiResponse(ProblemAnswer, _codes(code, details))
        for code in sorted(refusals)
    }
    shown = _page_of(answer) if is_paged else answer
    media_type = details.get("media_type", "application/json")
    responses[(status, media_type)] = OpenApiResponse(shown, summary)
    for other, meaning in details.get("also", {}).items():
        content = None if other == HTTPStatus.NO_CONTENT else shown
        responses[(other, media_type)] = OpenApiResponse(content, meaning)
    decorate: Callable[[F], F] = extend_schema(
        operation_id=operation_id,
        tags=[tag],
        summary=summary,
        description=details.get("description", ""),
        request=None if body is Nothing else body,
        responses=responses,
        parameters=[
            *_LIMIT_HEADERS,
            *details.get("parameters", ()),
            *(PAGING_PARAMETERS if is_paged else ()),
            *((_IDEMPOTENCY,) if details.get("is_idempotent") else ()),
        ],
        examples=list(details.get("examples", ())),
        filters=False,
    )
    return decorate


def _codes(status: int, details: Details) -> str:
    mapped = [code for code, its_status in STATUS.items() if its_status == status]
    codes = details.get("codes", {}).get(status, mapped)
    return f"code: {', '.join(codes)}"


def _page_of(answer: type[Answer]) -> Any:
    return inline_serializer(
        f"PageOf{answer.__name__.removesuffix('Answer')}",
        {
            "results": answer(many=True),
            "next": serializers.CharField(allow_null=True),
            "previous": serializers.CharField(allow_null=True),
        },
    )


def parameter(name: str, description: str, *, choices: Sequence[str] = ()) -> OpenApiParameter:
    """Return the description of a query parameter that is a text."""
    return OpenApiParameter(name, str, description=description, enum=list(choices) or None)


def time_parameter(name: str, description: str) -> OpenApiParameter:
    """Return the description of a query parameter that is a time."""
    return OpenApiParameter(name, OpenApiTypes.DATETIME, description=description)
