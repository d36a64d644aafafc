"""Behaviour samples: proposing them, and deciding which of them a system prompt says."""

from __future__ import annotations

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from governance.behaviour import service
from governance.behaviour.proposals import Proposal
from governance.behaviour.service import Filters
from governance.models import KeyScope
from memory.models import SampleKind, SampleStatus
from threads import catalogue
from threads.api.once import idempotent
from threads.api.schema import operation, parameter
from threads.api.serializers.behaviour import (
    ApprovalBody,
    NewSampleBody,
    SampleAnswer,
    SampleReasonBody,
)
from threads.api.views.base import PAGING, ApiView


class SamplesView(ApiView):
    """GET, POST /v1/behaviour-samples."""

    key_scopes = {"GET": KeyScope.READ, "POST": KeyScope.WRITE}
    parameters = {"GET": PAGING | {"agent_id", "status", "kind"}}

    @operation(
        "list_behaviour_samples",
        tag="Memory",
        summary="List behaviour samples, newest first",
        answer=SampleAnswer,
        is_paged=True,
        parameters=(
            parameter("agent_id", "Only this agent's, and those for all agents."),
            parameter("status", "Only those that stand so.", choices=SampleStatus.values),
            parameter("kind", "Only those of this kind.", choices=SampleKind.values),
        ),
    )
    def get(self, request: Request) -> Response:
        """Return a page."""
        filters = Filters(
            agent_id=request.query_params.get("agent_id"),
            status=self.word("status", choices=SampleStatus.values, default=None),
            kind=self.word("kind", choices=SampleKind.values, default=None),
        )
        rows = service.samples_of(principal=self.principal, filters=filters)
        return self.paged(rows, order=("-created_at", "-id"), answer=SampleAnswer)

    @operation(
        "propose_behaviour_sample",
        tag="Memory",
        summary="Propose a rule, an example or an intent",
        description="It waits until it is approved; the same words again answer 200 with the sample"
        " there is.",
        body=NewSampleBody,
        answer=SampleAnswer,
        status=201,
        also={200: "The sample that these words are already"},
        problems=(409, 422),
        codes={422: ("not_admitted",), 409: ("idempotency_conflict",)},
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request) -> Response:
        """Pass through the gate, store as waiting."""
        body = self.checked(NewSampleBody)
        catalogue.require_known_agent(scope=self.scope, agent_id=body["agent_id"])
        sample, is_new = service.propose(
            principal=self.principal, proposal=Proposal(origin="api", **body), now=timezone.now()
        )
        return Response(SampleAnswer(sample).data, status=201 if is_new else 200)


class SampleApproveView(ApiView):
    """POST /v1/behaviour-samples/{sample_id}/approve."""

    key_scopes = {"POST": KeyScope.GOVERN}

    @operation(
        "approve_behaviour_sample",
        tag="Memory",
        summary="Approve a sample that waits",
        description="From then on it stands in the system prompt, dated. One that is flagged"
        " `instruction_like` needs `anyway`. Where policy `four_eyes` is on, the first approval is"
        " noted and another principal's decides.",
        body=ApprovalBody,
        answer=SampleAnswer,
        problems=(409,),
        codes={
            409: (
                "already_decided",
                "instruction_like",
                "second_approver_needed",
                "idempotency_conflict",
            )
        },
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, sample_id: str) -> Response:
        """Approve; again changes nothing."""
        sample = service.approve(
            principal=self.principal,
            sample_id=sample_id,
            now=timezone.now(),
            anyway=self.checked(ApprovalBody)["anyway"],
        )
        return Response(SampleAnswer(sample).data)


class SampleRejectView(ApiView):
    """POST /v1/behaviour-samples/{sample_id}/reject."""

    key_scopes = {"POST": KeyScope.GOVERN}

    @operation(
        "reject_behaviour_sample",
        tag="Memory",
        summary="Reject a sample that waits",
        body=SampleReasonBody,
        answer=SampleAnswer,
        problems=(409,),
        codes={409: ("already_decided", "idempotency_conflict")},
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, sample_id: str) -> Response:
        """Reject; again changes nothing."""
        sample = service.reject(
            principal=self.principal,
            sample_id=sample_id,
            reason=self.checked(SampleReasonBody)["reason"],
            now=timezone.now(),
        )
        return Response(SampleAnswer(sample).data)


class SampleRetireView(ApiView):
    """POST /v1/behaviour-samples/{sample_id}/retire."""

    key_scopes = {"POST": KeyScope.GOVERN}

    @operation(
        "retire_behaviour_sample",
        tag="Memory",
        summary="Take an approved sample out of every later prompt",
        body=SampleReasonBody,
        answer=SampleAnswer,
        problems=(409,),
        codes={409: ("already_decided", "not_approved", "idempotency_conflict")},
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, sample_id: str) -> Response:
        """Retire; again changes nothing."""
        sample = service.retire(
            principal=self.principal,
            sample_id=sample_id,
            reason=self.checked(SampleReasonBody)["reason"],
            now=timezone.now(),
        )
        return Response(SampleAnswer(sample).data)
