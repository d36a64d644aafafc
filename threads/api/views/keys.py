"""API keys and the tenant's policy."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from governance import policy, registers
from governance.models import KeyScope
from governance.policy_rules import RULES, Policy
from threads import catalogue
from threads.api.once import idempotent
from threads.api.schema import operation
from threads.api.serializers.administration import (
    KeyAnswer,
    NewKeyAnswer,
    NewKeyBody,
    PolicyAnswer,
    PolicyBody,
)
from threads.api.views.base import PAGING, ApiView

_RULES_SHOWN = {
    name: {
        "default": rule.default,
        "unit": rule.unit,
        "low": rule.low if rule.is_number else None,
        "high": rule.high if rule.is_number else None,
        "choices": list(rule.choices),
    }
    for name, rule in RULES.items()
}


class KeysView(ApiView):
    """GET, POST /v1/keys."""

    key_scopes = {"GET": KeyScope.ADMIN, "POST": KeyScope.ADMIN}
    parameters = {"GET": PAGING}

    @operation(
        "list_keys",
        tag="Administration",
        summary="List keys, newest first",
        answer=KeyAnswer,
        is_paged=True,
        problems=(400,),
    )
    def get(self, request: Request) -> Response:
        """Return a page; revoked keys are in it, marked so."""
        rows = registers.keys_of(scope=self.scope)
        return self.paged(rows, order=("-created_at", "-id"), answer=KeyAnswer)

    @operation(
        "create_key",
        tag="Administration",
        summary="Make a key",
        description="`secret` is shown in this answer and never again, in a replay neither."
        " Two live keys at once let a client rotate. A key holds `govern` together with `run` or"
        " `write` only where policy `govern_with_write` is on.",
        body=NewKeyBody,
        answer=NewKeyAnswer,
        status=201,
        problems=(409,),
        codes={409: ("govern_with_write", "idempotency_conflict")},
        is_idempotent=True,
    )
    @idempotent(hidden=("secret",))
    def post(self, request: Request) -> Response:
        """Make a key, limited to an agent and a person if named."""
        body = self.checked(NewKeyBody)
        catalogue.require_known_agent(scope=self.scope, agent_id=body["agent_id"])
        made = registers.issue_key(scope=self.scope, now=timezone.now(), **body)
        return Response({**KeyAnswer(made.key).data, "secret": made.secret}, status=201)


class KeyView(ApiView):
    """DELETE /v1/keys/{key_id}."""

    key_scopes = {"DELETE": KeyScope.ADMIN}

    @operation("revoke_key", tag="Administration", summary="Revoke a key at once", status=204)
    def delete(self, request: Request, key_id: str) -> Response:
        """Revoke; again changes nothing."""
        registers.revoke_key(scope=self.scope, key_id=key_id, now=timezone.now())
        return Response(status=204)


class PolicyView(ApiView):
    """GET, PATCH /v1/policy."""

    key_scopes = {"GET": KeyScope.ADMIN, "PATCH": KeyScope.ADMIN}

    @operation(
        "read_policy",
        tag="Administration",
        summary="Read the tenant's policy",
        description="Every value that holds, and under `rules` its default, unit and bounds.",
        answer=PolicyAnswer,
    )
    def get(self, request: Request) -> Response:
        """Return all values."""
        return Response(_shown(registers.read_policy(scope=self.scope)))

    @operation(
        "change_policy",
        tag="Administration",
        summary="Change the tenant's policy",
        description="Send the values to change; null sets one back to its default.",
        body=PolicyBody,
        answer=PolicyAnswer,
    )
    def patch(self, request: Request) -> Response:
        """Change what is named."""
        changes = self.checked(PolicyBody)
        changed = policy.change_policy(scope=self.scope, changes=changes, now=timezone.now())
        return Response(_shown(changed))


def _shown(values: Policy) -> dict[str, Any]:
    return {**values.values, "rules": _RULES_SHOWN}
