"""Who was shown an item, what was made of it, and making that anew."""

from __future__ import annotations

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from governance.models import KeyScope
from threads.api.once import idempotent
from threads.api.schema import operation
from threads.api.serializers.base import Nothing
from threads.api.serializers.uses import RederivedAnswer, UsesAnswer
from threads.api.views.base import ApiView
from threads.uses import rederive, uses_of
from threads.uses.reach import reach_of


class UsesView(ApiView):
    """GET /v1/items/{item_id}/uses."""

    key_scopes = {"GET": KeyScope.READ}

    @operation(
        "read_uses",
        tag="Memory",
        summary="List which answers showed an item, and what was made of it",
        description="Any id that a prompt can show: a run, message, thread (its summary), node,"
        " recall entry, fact, candidate, item, correction, entity, document, chunk or artefact."
        " Ids, kinds and times only. What was deleted or erased still lists its answers, newest"
        " first, at most 100; `answers_total` counts all.",
        answer=UsesAnswer,
    )
    def get(self, request: Request, item_id: str) -> Response:
        """Return the uses."""
        reach = reach_of(principal=self.principal)
        return Response(UsesAnswer(uses_of(reach=reach, item_id=item_id)).data)


class RederiveView(ApiView):
    """POST /v1/items/{item_id}/rederive."""

    key_scopes = {"POST": KeyScope.GOVERN}

    @operation(
        "rederive_item",
        tag="Memory",
        summary="Make anew what was derived from a run, message or thread",
        description="Summary, nodes, recall entries with their vectors and waiting candidates go"
        " and are asked for anew. What somebody decided stays, and is listed as `left`.",
        body=Nothing,
        answer=RederivedAnswer,
        status=202,
        problems=(409,),
        codes={409: ("not_rederivable", "legal_hold")},
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, item_id: str) -> Response:
        """Drop and ask anew."""
        self.checked(Nothing)
        reach = reach_of(principal=self.principal)
        done = rederive(reach=reach, item_id=item_id, now=timezone.now())
        return Response(RederivedAnswer(done).data, status=202)
