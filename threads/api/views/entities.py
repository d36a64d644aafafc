"""The tenant's vocabulary: corrections that propose terms, deciding about them, the terms themselves."""

from __future__ import annotations

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from governance.entities import service
from governance.entities.corrections import Said
from governance.entities.editing import EntityChange
from governance.entities.service import Filters
from governance.models import EntityCandidateStatus, KeyScope
from memory.models import EntityStatus
from threads import catalogue
from threads.api.once import idempotent
from threads.api.schema import operation, parameter
from threads.api.serializers.base import Nothing
from threads.api.serializers.entities import (
    CorrectionAnswer,
    CorrectionBody,
    EntityAnswer,
    EntityApprovalBody,
    EntityBody,
    EntityCandidateAnswer,
    EntityEventAnswer,
    EntityRejectionBody,
    MergeBody,
)
from threads.api.views.base import PAGING, ApiView
from threads.learning.corrections import correct


class CorrectionsView(ApiView):
    """POST /v1/threads/{thread_id}/corrections."""

    key_scopes = {"POST": KeyScope.WRITE}
    answered_person_id: str | None = None

    @operation(
        "correct_thread",
        tag="Threads",
        summary="Put a term right that a conversation had wrong",
        description="It proposes the term for the tenant's vocabulary; what carries orders is kept"
        " as evidence and proposes nothing.",
        body=CorrectionBody,
        answer=CorrectionAnswer,
        status=201,
        problems=(409, 422),
        codes={422: ("not_admitted",), 409: ("idempotency_conflict",)},
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, thread_id: str) -> Response:
        """Pass through the gate, store, ask for a candidate."""
        body = self.checked(CorrectionBody)
        thread = catalogue.read_thread(principal=self.principal, thread_id=thread_id)
        message_id = body.pop("message_id")
        made = correct(
            scope=self.scope,
            thread=thread,
            message_id=message_id,
            said=Said(**body),
            now=timezone.now(),
        )
        self.answered_person_id = thread.end_user_id
        return Response(CorrectionAnswer(made).data, status=201)


class EntitiesView(ApiView):
    """GET /v1/entities."""

    key_scopes = {"GET": KeyScope.READ}
    parameters = {"GET": PAGING | {"q", "entity_type", "status"}}

    @operation(
        "list_entities",
        tag="Memory",
        summary="List the terms of the vocabulary, the last changed first",
        answer=EntityAnswer,
        is_paged=True,
        parameters=(
            parameter("q", "Only those with a name that has this in it."),
            parameter("entity_type", "Only those of this type."),
            parameter("status", "Only those that stand so.", choices=EntityStatus.values),
        ),
    )
    def get(self, request: Request) -> Response:
        """Return a page."""
        query = request.query_params
        filters = Filters(
            text=query.get("q"),
            entity_type=query.get("entity_type"),
            status=self.word("status", choices=EntityStatus.values, default=None),
        )
        rows = service.entities_of(principal=self.principal, filters=filters)
        return self.paged(rows, order=("-updated_at", "-id"), answer=EntityAnswer)


class EntityView(ApiView):
    """GET, PATCH /v1/entities/{entity_id}."""

    key_scopes = {"GET": KeyScope.READ, "PATCH": KeyScope.GOVERN}

    @operation("read_entity", tag="Memory", summary="Read a term", answer=EntityAnswer)
    def get(self, request: Request, entity_id: str) -> Response:
        """Return the entity."""
        found = service.read_entity(principal=self.principal, entity_id=entity_id)
        return Response(EntityAnswer(found).data)

    @operation(
        "change_entity",
        tag="Memory",
        summary="Change a term's names, or whether it takes part",
        body=EntityBody,
        answer=EntityAnswer,
        problems=(409, 422),
        codes={
            409: ("name_taken", "merged_entity", "too_many_aliases"),
            422: ("not_admitted",),
        },
    )
    def patch(self, request: Request, entity_id: str) -> Response:
        """Change what is named, audited."""
        change = EntityChange(**self.checked(EntityBody))
        changed = service.change(
            principal=self.principal, entity_id=entity_id, change=change, now=timezone.now()
        )
        return Response(EntityAnswer(changed).data)


class EntityHistoryView(ApiView):
    """GET /v1/entities/{entity_id}/history."""

    key_scopes = {"GET": KeyScope.READ}
    parameters = {"GET": PAGING}

    @operation(
        "list_entity_events",
        tag="Memory",
        summary="List what happened to a term and its weight, newest first",
        answer=EntityEventAnswer,
        is_paged=True,
    )
    def get(self, request: Request, entity_id: str) -> Response:
        """Return a page."""
        rows = service.events_of(principal=self.principal, entity_id=entity_id)
        return self.paged(rows, order=("-at", "-id"), answer=EntityEventAnswer)


class EntityMergeView(ApiView):
    """POST /v1/entities/{entity_id}/merge."""

    key_scopes = {"POST": KeyScope.GOVERN}

    @operation(
        "merge_entity",
        tag="Memory",
        summary="Merge a term into another one",
        description="Its names become aliases of the other, which is answered; unmerge undoes it.",
        body=MergeBody,
        answer=EntityAnswer,
        problems=(409,),
        codes={
            409: ("already_decided", "can_not_merge", "too_many_aliases", "idempotency_conflict")
        },
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, entity_id: str) -> Response:
        """Merge; again changes nothing."""
        merged = service.merge(
            principal=self.principal,
            entity_id=entity_id,
            target_id=self.checked(MergeBody)["target_id"],
            now=timezone.now(),
        )
        return Response(EntityAnswer(merged).data)


class EntityUnmergeView(ApiView):
    """POST /v1/entities/{entity_id}/unmerge."""

    key_scopes = {"POST": KeyScope.GOVERN}

    @operation(
        "unmerge_entity",
        tag="Memory",
        summary="Undo the merge of a term",
        body=Nothing,
        answer=EntityAnswer,
        problems=(409,),
        codes={409: ("not_merged", "idempotency_conflict")},
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, entity_id: str) -> Response:
        """Let it live by itself again."""
        self.checked(Nothing)
        entity = service.unmerge(principal=self.principal, entity_id=entity_id, now=timezone.now())
        return Response(EntityAnswer(entity).data)


class EntityCandidatesView(ApiView):
    """GET /v1/entity-candidates."""

    key_scopes = {"GET": KeyScope.READ}
    parameters = {"GET": PAGING | {"status", "entity_type"}}

    @operation(
        "list_entity_candidates",
        tag="Memory",
        summary="List proposed terms with their evidence, the last changed first",
        answer=EntityCandidateAnswer,
        is_paged=True,
        parameters=(
            parameter("status", "Only those that stand so.", choices=EntityCandidateStatus.values),
            parameter("entity_type", "Only those of this type."),
        ),
    )
    def get(self, request: Request) -> Response:
        """Return a page."""
        rows = service.candidates_of(
            principal=self.principal,
            status=self.word("status", choices=EntityCandidateStatus.values, default=None),
            entity_type=request.query_params.get("entity_type"),
        )
        return self.paged(rows, order=("-updated_at", "-id"), answer=EntityCandidateAnswer)


class EntityApproveView(ApiView):
    """POST /v1/entity-candidates/{entity_candidate_id}/approve."""

    key_scopes = {"POST": KeyScope.GOVERN}

    @operation(
        "approve_entity_candidate",
        tag="Memory",
        summary="Approve a proposed term",
        description="From then on runs and searches know it. Where policy `four_eyes` is on, the"
        " first approval is noted and another principal's decides.",
        body=EntityApprovalBody,
        answer=EntityCandidateAnswer,
        problems=(409, 422),
        codes={
            409: (
                "already_decided",
                "name_taken",
                "second_approver_needed",
                "idempotency_conflict",
            ),
            422: ("not_admitted",),
        },
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, entity_candidate_id: str) -> Response:
        """Approve; again changes nothing."""
        candidate = service.approve(
            principal=self.principal,
            candidate_id=entity_candidate_id,
            now=timezone.now(),
            **self.checked(EntityApprovalBody),
        )
        return Response(EntityCandidateAnswer(candidate).data)


class EntityRejectView(ApiView):
    """POST /v1/entity-candidates/{entity_candidate_id}/reject."""

    key_scopes = {"POST": KeyScope.GOVERN}

    @operation(
        "reject_entity_candidate",
        tag="Memory",
        summary="Reject a proposed term",
        body=EntityRejectionBody,
        answer=EntityCandidateAnswer,
        problems=(409,),
        codes={409: ("already_decided", "idempotency_conflict")},
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, entity_candidate_id: str) -> Response:
        """Reject; again changes nothing."""
        candidate = service.reject(
            principal=self.principal,
            candidate_id=entity_candidate_id,
            reason=self.checked(EntityRejectionBody)["reason"],
            now=timezone.now(),
        )
        return Response(EntityCandidateAnswer(candidate).data)
