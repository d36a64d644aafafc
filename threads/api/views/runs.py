"""Running an agent, and reading what became of a run."""

from __future__ import annotations

from typing import Any, Final

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from governance.models import KeyScope
from threads import catalogue
from threads.api.examples import RUN_EXAMPLES
from threads.api.once import idempotency_key, idempotent
from threads.api.requests import django_request
from threads.api.running import (
    RunCall,
    drive_json,
    drive_stream,
    respond,
    show_json,
    show_stream,
)
from threads.api.schema import operation
from threads.api.serializers.base import Nothing
from threads.api.serializers.runs import RunAnswer, RunBody, RunContextAnswer, TraceAnswer
from threads.api.views.base import AnyAccept, ApiView
from threads.catalogue import ContinueNeedsStreamError
from threads.request import HandedFact, HandedMaterial, RunRequest

_PROBLEMS: Final = (409, 422, 502, 504)
_CODES: Final = {
    409: ("thread_archived", "run_cancelled", "idempotency_conflict"),
    502: ("provider_error", "provider_misconfigured", "provider_host_refused"),
}


class RunningView(ApiView):
    """What both ways to run share."""

    key_scopes = {"POST": KeyScope.RUN}

    def _call(
        self, agent_id: str, body: dict[str, Any], *, continues_run_id: str | None = None
    ) -> RunCall:
        return RunCall(
            request=django_request(self.request),
            principal=self.principal,
            agent_id=agent_id,
            asked=run_request(body, continues_run_id=continues_run_id),
            key=idempotency_key(self.request),
        )

    def _continued(self, agent_id: str, body: dict[str, Any]) -> str | None:
        """Return the run that the body names, which must be one of this agent and person."""
        run_id: str | None = (body.get("context") or {}).get("run_id")
        if not run_id:
            return None
        catalogue.require_continuable(
            principal=self.principal, agent_id=agent_id, user_id=body["user_id"], run_id=run_id
        )
        return run_id


class RunView(RunningView):
    """POST /v1/agents/{agent_id}/run."""

    @operation(
        "run",
        tag="Runs",
        summary="Ask an agent and wait for its answer",
        body=RunBody,
        answer=RunAnswer,
        problems=_PROBLEMS,
        codes=_CODES,
        examples=RUN_EXAMPLES,
        is_idempotent=True,
    )
    def post(self, request: Request, agent_id: str) -> HttpResponseBase:
        """Run to the end; the run completes also when the client leaves."""
        body = self.checked(RunBody)
        if self._continued(agent_id, body):
            raise ContinueNeedsStreamError(field="context.run_id")
        return respond(self._call(agent_id, body), drive=drive_json, show=show_json)


class RunStreamView(RunningView):
    """POST /v1/agents/{agent_id}/run/stream."""

    content_negotiation_class = AnyAccept

    @operation(
        "run_stream",
        tag="Runs",
        summary="Ask an agent and follow its answer",
        description="Events: `started`, `context`, any number of `delta`, `tool_call` and"
        " `tool_result`, then exactly one of `completed` (the run), `failed` and `cancelled`."
        " Refusals before `started` are problem documents.",
        body=RunBody,
        answer=str,
        media_type="text/event-stream",
        problems=_PROBLEMS,
        codes=_CODES,
        is_idempotent=True,
    )
    def post(self, request: Request, agent_id: str) -> HttpResponseBase:
        """Stream the run; a client that leaves cancels it."""
        body = self.checked(RunBody)
        call = self._call(agent_id, body, continues_run_id=self._continued(agent_id, body))
        return respond(call, drive=drive_stream, show=show_stream)


def run_request(body: dict[str, Any], *, continues_run_id: str | None = None) -> RunRequest:
    """Return what a checked body asks."""
    return RunRequest(
        input=body["input"],
        user_id=body["user_id"],
        thread_id=body["thread_id"],
        facts=tuple(HandedFact(**fact) for fact in body.get("facts", ())),
        materials=tuple(HandedMaterial(**material) for material in body.get("materials", ())),
        metadata=body.get("metadata", {}),
        continues_run_id=continues_run_id,
    )


class RunDetailView(ApiView):
    """GET /v1/runs/{run_id}."""

    key_scopes = {"GET": KeyScope.READ}

    @operation("read_run", tag="Runs", summary="Read a run", answer=RunAnswer)
    def get(self, request: Request, run_id: str) -> Response:
        """Return the run as it stands."""
        run = catalogue.read_run(principal=self.principal, run_id=run_id)
        return Response(RunAnswer(run).data)


class RunTraceView(ApiView):
    """GET /v1/runs/{run_id}/trace."""

    key_scopes = {"GET": KeyScope.READ}

    @operation("read_trace", tag="Runs", summary="Read a run's steps", answer=TraceAnswer)
    def get(self, request: Request, run_id: str) -> Response:
        """Return the steps."""
        trace = catalogue.read_trace(principal=self.principal, run_id=run_id)
        return Response(TraceAnswer(trace).data)


class RunContextView(ApiView):
    """GET /v1/runs/{run_id}/context."""

    key_scopes = {"GET": KeyScope.READ}

    @operation(
        "read_context", tag="Runs", summary="Read a run's prompt as it was", answer=RunContextAnswer
    )
    def get(self, request: Request, run_id: str) -> Response:
        """Return the messages as sent, the ledger and the items."""
        trace = catalogue.read_trace(principal=self.principal, run_id=run_id)
        return Response(RunContextAnswer(trace).data)


class CancelView(ApiView):
    """POST /v1/runs/{run_id}/cancel."""

    key_scopes = {"POST": KeyScope.RUN}

    @operation(
        "cancel_run",
        tag="Runs",
        summary="Cancel a run",
        body=Nothing,
        answer=RunAnswer,
        problems=(409,),
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, run_id: str) -> Response:
        """Cancel; a run that has ended is a conflict."""
        self.checked(Nothing)
        run = catalogue.cancel_run(principal=self.principal, run_id=run_id, now=timezone.now())
        return Response(RunAnswer(run).data)
