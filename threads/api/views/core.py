"""Core memory: what holds of a person, what waits, and deciding about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from governance.core import service
from governance.core.service import Decider
from governance.models import KeyScope
from threads.api.once import idempotent
from threads.api.schema import operation, parameter, time_parameter
from threads.api.serializers.core import (
    ConfirmationBody,
    ConfirmedAnswer,
    CoreAnswer,
    CoreCandidateAnswer,
    CoreFactAnswer,
    FactChangeBody,
    NewFactBody,
    RejectionBody,
    WaitingCandidateAnswer,
)
from threads.api.views.base import ApiView

_WORDS: Final = ("true", "false")
_REFUSED: Final = ("not_admitted",)
_DECIDED: Final = ("already_decided", "idempotency_conflict")


class CoreView(ApiView):
    """GET, POST /v1/users/{user}/core."""

    key_scopes = {"GET": KeyScope.READ, "POST": KeyScope.WRITE}
    parameters = {"GET": frozenset({"as_of"})}
    answered_person_id: str | None = None

    @operation(
        "read_core",
        tag="Memory",
        summary="Read a person's core memory beside what waits for a decision",
        description="Facts, the most recently used first; candidates that wait, the likeliest"
        " first and at most 200. `user` is the percent-encoded user_id or the `usr_` id; an unknown"
        " person has none.",
        answer=CoreAnswer,
        parameters=(time_parameter("as_of", "The facts that held then."),),
    )
    def get(self, request: Request, user: str) -> Response:
        """Return both."""
        core = service.core_of(principal=self.principal, user_id=user, as_of=self.moment("as_of"))
        both = {"facts": core.facts, "candidates": core.waiting}
        context = {"conflicts": core.conflicts or {}}
        return Response(CoreAnswer(both, context=context).data)

    @operation(
        "add_core_candidate",
        tag="Memory",
        summary="Let a fact about a person wait for a decision",
        description="It takes effect in nothing until it is confirmed. What waits, was rejected or"
        " holds already answers 200 with the candidate there is.",
        body=NewFactBody,
        answer=WaitingCandidateAnswer,
        status=201,
        also={200: "The candidate there is"},
        problems=(409, 422),
        codes={422: _REFUSED, 409: ("same_fact", "idempotency_conflict")},
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, user: str) -> Response:
        """Pass through the gate, store."""
        added = service.add(
            principal=self.principal, user_id=user, now=timezone.now(), **self.checked(NewFactBody)
        )
        conflicts: Mapping[str, Sequence[str]] = {}
        if added.candidate is not None:
            self.answered_person_id = added.candidate.end_user_id
            conflicts = service.conflicts_with(principal=self.principal, candidate=added.candidate)
        answer = WaitingCandidateAnswer(added.candidate, context={"conflicts": conflicts}).data
        return Response(answer, status=201 if added.is_new else 200)


class ConfirmCandidateView(ApiView):
    """POST /v1/core-candidates/{core_candidate_id}/confirm."""

    key_scopes = {"POST": KeyScope.GOVERN}
    parameters = {"POST": frozenset({"evict"})}
    answered_person_id: str | None = None

    @operation(
        "confirm_core_candidate",
        tag="Memory",
        summary="Confirm a candidate: from then on it is a fact",
        description="Facts of the same subject are superseded. Where core memory is full,"
        " `core_full` offers the least recently used fact as `least_recently_used`; with"
        " `evict=true` it makes room, and can be restored.",
        body=ConfirmationBody,
        answer=ConfirmedAnswer,
        problems=(409, 422),
        codes={
            422: _REFUSED,
            409: ("core_full", "second_approver_needed", "same_fact", *_DECIDED),
        },
        parameters=(parameter("evict", "As in the body.", choices=_WORDS),),
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, core_candidate_id: str) -> Response:
        """Confirm; again changes nothing."""
        body = self.checked(ConfirmationBody)
        asked = self.word("evict", choices=_WORDS, default=None)
        now, may_evict = timezone.now(), body["evict"] or asked == "true"
        candidate, fact = service.confirm(
            principal=self.principal,
            candidate_id=core_candidate_id,
            now=now,
            fact=body["fact"],
            decider=_decider(body),
            may_evict=may_evict,
        )
        self.answered_person_id = candidate.end_user_id
        evicted: list[str] = []
        if may_evict:
            evicted = service.evicted_at(principal=self.principal, candidate=candidate, at=now)
        both = {"candidate": candidate, "fact": fact, "evicted": evicted}
        return Response(ConfirmedAnswer(both).data)


class RejectCandidateView(ApiView):
    """POST /v1/core-candidates/{core_candidate_id}/reject."""

    key_scopes = {"POST": KeyScope.GOVERN}
    answered_person_id: str | None = None

    @operation(
        "reject_core_candidate",
        tag="Memory",
        summary="Reject a candidate; seen again, it stays rejected",
        body=RejectionBody,
        answer=CoreCandidateAnswer,
        problems=(409,),
        codes={409: _DECIDED},
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, core_candidate_id: str) -> Response:
        """Reject; again changes nothing, the reason neither."""
        body = self.checked(RejectionBody)
        candidate = service.reject(
            principal=self.principal,
            candidate_id=core_candidate_id,
            reason=body["reason"],
            now=timezone.now(),
            decider=_decider(body),
        )
        self.answered_person_id = candidate.end_user_id
        return Response(CoreCandidateAnswer(candidate).data)


class CoreFactView(ApiView):
    """PATCH, DELETE /v1/core-facts/{fact_id}."""

    key_scopes = {"PATCH": KeyScope.GOVERN, "DELETE": KeyScope.GOVERN}

    @operation(
        "change_core_fact",
        tag="Memory",
        summary="Change a fact, or restore one that was evicted",
        body=FactChangeBody,
        answer=CoreFactAnswer,
        problems=(409, 422),
        codes={422: _REFUSED, 409: ("core_full", "same_fact", "fact_ended")},
    )
    def patch(self, request: Request, fact_id: str) -> Response:
        """Change what is given."""
        body = self.checked(FactChangeBody)
        fact = service.change(
            principal=self.principal,
            fact_id=fact_id,
            now=timezone.now(),
            fact=body.get("fact"),
            subject=body.get("subject"),
            is_restored=body["restore"],
        )
        return Response(CoreFactAnswer(fact).data)

    @operation(
        "delete_core_fact",
        tag="Memory",
        summary="Delete a fact and the candidate that repeats its words",
        status=204,
    )
    def delete(self, request: Request, fact_id: str) -> Response:
        """Delete it, and all that was found of it."""
        service.delete(principal=self.principal, fact_id=fact_id, now=timezone.now())
        return Response(status=204)


def _decider(body: dict[str, Any]) -> Decider | None:
    given = body["decided_by"]
    return Decider(**given) if given else None
