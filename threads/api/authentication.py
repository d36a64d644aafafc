"""Who speaks: the API key in the Authorization header, and whether it may use this route."""

from __future__ import annotations

from typing import Any, Final

from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from governance.access import ForbiddenError, Principal
from governance.keys import UnauthenticatedError, authenticate
from governance.models import KeyScope
from governance.peers import address_of
from threads.api.requests import django_request
from threads.api.throttling import LIMITS

STANDING: Final = "credence.rate_limit"


class ApiKeyAuthentication(BaseAuthentication):
    """Takes `Authorization: Bearer <key>`; never a query string, cookie or other header.

    The principal is on `request.auth`. Cost: about six statements, for garbage one.
    """

    def authenticate(self, request: Request) -> tuple[None, Principal]:
        """Return the principal of the key.

        Raises:
            UnauthenticatedError: No key, or not a good one; the answer is the same for all.
            RateLimitedError: Too many wrong keys came from there, or the key asks too often.
        """
        kind, _, raw = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer":
            raise UnauthenticatedError
        raw, asked = raw.strip(), django_request(request)
        peer = address_of(asked)
        LIMITS.before_key(peer=peer, raw=raw)
        try:
            principal = authenticate(raw=raw, now=timezone.now())
        except UnauthenticatedError:
            LIMITS.wrong_key(peer=peer, raw=raw)
            raise
        if standing := LIMITS.right_key(peer=peer, raw=raw, key_id=principal.id):
            asked.META[STANDING] = standing  # before the refusal, whose answer tells it too
            standing.require_room()
        return None, principal

    def authenticate_header(self, request: Request) -> str:
        """Return what a 401 asks for."""
        return "Bearer"


class HasKeyScope(BasePermission):
    """Lets pass a key that carries the scope which the view declares for the method.

    A method that a view serves but does not declare is refused. A key limited to one agent or one
    person can not administer the tenant, or it could make itself a wider key.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        """Say yes or raise.

        Raises:
            ForbiddenError: The key's scopes or limits do not reach this route.
        """
        method = "GET" if request.method == "HEAD" else str(request.method)
        if not hasattr(view, method.lower()) or method == "OPTIONS":
            return True  # Nothing is served; the answer is 405.
        wanted = view.key_scope_for(method)
        principal = request.auth
        if wanted is None or not isinstance(principal, Principal):
            raise ForbiddenError
        principal.require_key_scope(wanted)
        if wanted == KeyScope.ADMIN and (principal.agent_id or principal.end_user_id):
            raise ForbiddenError("A key limited to one agent or user can not administer.")
        return True
