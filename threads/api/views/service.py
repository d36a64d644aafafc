"""Health, readiness, and the API's own description. None needs a key, none shows a tenant."""

from __future__ import annotations

from functools import cache

from django.http import HttpResponse, HttpResponseRedirect
from django.utils import timezone
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularSwaggerSplitView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from threads import readiness
from threads.api.problems import FieldError, Problem, problem_response
from threads.api.requests import django_request
from threads.api.serializers.service import StateAnswer
from threads.api.views.base import AnyAccept


class OpenView(APIView):
    """A view for everybody."""

    authentication_classes = ()
    permission_classes = ()
    content_negotiation_class = AnyAccept
    http_method_names = ["get", "head"]


class RootView(OpenView):
    """GET /."""

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponseRedirect:
        """Lead whoever opens the bare address to the page that describes the API."""
        return HttpResponseRedirect("/v1/docs")


class HealthView(OpenView):
    """GET /healthz."""

    @extend_schema(operation_id="healthz", tags=["Service"], summary="Alive", responses=StateAnswer)
    def get(self, request: Request) -> Response:
        """Say that the process answers; asks nobody else."""
        return Response({"status": "ok"})


class ReadyView(OpenView):
    """GET /readyz."""

    @extend_schema(
        operation_id="readyz", tags=["Service"], summary="Able to work", responses=StateAnswer
    )
    def get(self, request: Request) -> HttpResponse:
        """Say whether database, migrations and lanes are as they must be."""
        missing = readiness.missing_parts(now=timezone.now())
        if not missing:
            return Response({"status": "ready"})
        problem = Problem(
            status=503,
            code="not_ready",
            detail=" ".join(part.detail for part in missing),
            errors=tuple(
                FieldError(field=part.part, code=part.code, detail=part.detail) for part in missing
            ),
        )
        return problem_response(problem, request=django_request(request))


@cache
def openapi_document() -> bytes:
    """Return the API's description as JSON. Cost: about a second, once a process."""
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]
    schema = generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return bytes(OpenApiJsonRenderer().render(schema))


class OpenApiView(OpenView):
    """GET /v1/openapi.json."""

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        """Return the description."""
        return HttpResponse(openapi_document(), content_type="application/json")


class DocsView(SpectacularSwaggerSplitView):
    """GET /v1/docs: the interactive page, with scripts of this very server and none inside."""

    authentication_classes = ()
    permission_classes = ()
    content_negotiation_class = AnyAccept
    http_method_names = ["get", "head"]
    url_name = "openapi"
    template_name = "api/docs.html"
