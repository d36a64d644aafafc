"""Assembling a prompt for callers who call models themselves."""

from __future__ import annotations

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from governance.models import KeyScope
from threads import contexts
from threads.api.schema import operation
from threads.api.serializers.runs import ContextAnswer, ContextBody
from threads.api.views.base import ApiView
from threads.api.views.runs import run_request


class ContextView(ApiView):
    """POST /v1/agents/{agent_id}/context."""

    key_scopes = {"POST": KeyScope.READ}

    @operation(
        "assemble_context",
        tag="Runs",
        summary="Assemble a prompt and call no model",
        description="Stores only a trace: no person, thread, run or message comes of it.",
        body=ContextBody,
        answer=ContextAnswer,
        problems=(422,),
    )
    def post(self, request: Request, agent_id: str) -> Response:
        """Return the messages, the ledger and the items."""
        asked = run_request(self.checked(ContextBody))
        built = contexts.assemble_context(
            principal=self.principal, agent_id=agent_id, request=asked, now=timezone.now()
        )
        return Response(ContextAnswer(built).data)
