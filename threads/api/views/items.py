"""Memory items: kept under a key, listed, read, deleted, with their history."""

from __future__ import annotations

from typing import Any, Final

from django.utils import timezone
from django.utils.functional import cached_property
from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request
from rest_framework.response import Response

from governance import access
from governance.items import service
from governance.items.clearing import Words
from governance.items.service import ItemWish, Whose
from governance.models import KeyScope
from memory.errors import InvalidInputError, NotFoundError
from memory.models import ItemCategory
from memory.scope import Scope
from threads.agents import role_within_reach
from threads.api.pagination import InvalidParameterError
from threads.api.schema import operation, parameter
from threads.api.serializers.items import MOST_ROLE, ItemAnswer, ItemBody, VersionAnswer
from threads.api.views.base import PAGING, ApiView

_WHOSE: Final = frozenset({"user_id", "team", "role"})
_OWNER = (
    parameter("user_id", "The person; this or team is needed."),
    parameter("team", "The team, by id or name."),
)
_ROLE = parameter("role", "Of agents with this role; every role if not given.")
_ONE_ROLE = parameter("role", "Of this role; without one that of `default`, else the newest.")
_EXAMPLES: Final = (
    OpenApiExample(
        "Progress of a course",
        value={
            "user_id": "teacher-7",
            "title": "标日学习",
            "content": "学到第 12 课，动词て形还不熟。",
            "role": "tutor",
        },
        request_only=True,
    ),
    OpenApiExample(
        "A team's memo that ends",
        value={
            "team": "support",
            "title": "Refund window",
            "content": "During the sale refunds are taken for 30 days.",
            "expires_at": "2027-01-31T00:00:00Z",
        },
        request_only=True,
    ),
)


class _ItemsView(ApiView):
    """Base of these views: a key of one person reaches that person's teams."""

    @cached_property
    def scope(self) -> Scope:
        """The principal's widest scope, its teams with it."""
        return access.widest_scope(self.principal)

    def whose(self, given: dict[str, Any]) -> Whose:
        """Return whose items are meant, in the role that the key may see.

        Raises:
            OneOwnerError: Two owners are named, or none.
            ForbiddenError: The key is limited to an agent of another role.
        """
        role = given.get("role")
        if role is not None and not 1 <= len(role) <= MOST_ROLE:
            raise InvalidParameterError(f"role is 1 to {MOST_ROLE} characters.", field="role")
        whose = Whose(user_id=given.get("user_id"), team=given.get("team"), role=role)
        within = role_within_reach(principal=self.principal, role=role)
        return Whose(user_id=whose.user_id, team=whose.team, role=within)

    def asked(self) -> Whose:
        """Return whose items the query names."""
        return self.whose(self.request.query_params.dict())


class ItemsView(_ItemsView):
    """GET /v1/memories."""

    key_scopes = {"GET": KeyScope.READ}
    parameters = {"GET": PAGING | _WHOSE | {"category"}}

    @operation(
        "list_memories",
        tag="Memory",
        summary="List a person's or a team's memory items, the last written first",
        description="Neither what is held nor what is past its end; an unknown person has none.",
        answer=ItemAnswer,
        is_paged=True,
        parameters=(
            *_OWNER,
            _ROLE,
            parameter("category", "Only of this one.", choices=ItemCategory.values),
        ),
    )
    def get(self, request: Request) -> Response:
        """Return a page."""
        category = self.word("category", choices=ItemCategory.values, default=None)
        rows = service.list_items(
            principal=self.principal, whose=self.asked(), category=category, now=timezone.now()
        )
        return self.paged(rows, order=("-updated_at", "-id"), answer=ItemAnswer)


class ItemView(_ItemsView):
    """GET, PUT, DELETE /v1/memories/{category}/{key}."""

    key_scopes = {"GET": KeyScope.READ, "PUT": KeyScope.WRITE, "DELETE": KeyScope.WRITE}
    parameters = {"GET": _WHOSE, "PUT": frozenset({"force"}), "DELETE": _WHOSE}

    def key_scope_for(self, method: str) -> KeyScope | None:
        """As declared; preferences are changed by who governs, who need not write besides."""
        is_preference = self.kwargs.get("category") == ItemCategory.USER_PREFERENCES
        if is_preference and method in ("PUT", "DELETE"):
            return KeyScope.GOVERN
        return super().key_scope_for(method)

    @operation(
        "read_memory",
        tag="Memory",
        summary="Read a memory item",
        answer=ItemAnswer,
        parameters=(*_OWNER, _ONE_ROLE),
    )
    def get(self, request: Request, category: str, key: str) -> Response:
        """Return it as it stands now."""
        item = service.read_item(
            principal=self.principal,
            whose=self.asked(),
            category=_known(category),
            key=key,
            now=timezone.now(),
        )
        return Response(ItemAnswer(item).data)

    @operation(
        "put_memory",
        tag="Memory",
        summary="Keep a memory item under a key",
        description="The same key again is its next version; the same text again changes nothing."
        " A new key that is close to another one of the same owner, role and category (names and"
        " what they mean, Chinese and English) is answered 409 `similar_key` with those keys, unless"
        " `force=true`. Secrets are taken out; what has something personal that policy holds back is"
        " stored with status `held` beside what is in effect, and shown nowhere until a person"
        " released it. `user_preferences` needs the scope govern instead of write.",
        body=ItemBody,
        answer=ItemAnswer,
        status=201,
        also={200: "The key was there: its next version, or no change"},
        problems=(409,),
        codes={409: ("similar_key",)},
        parameters=(
            parameter("force", "Take a key although it is close.", choices=("true", "false")),
        ),
        examples=_EXAMPLES,
    )
    def put(self, request: Request, category: str, key: str) -> Response:
        """Pass it through the gate and store it."""
        force = self.word("force", choices=("true", "false"), default="false")
        body = self.checked(ItemBody)
        if category not in ItemCategory.values:
            detail = f"A category is one of: {', '.join(ItemCategory.values)}."
            raise InvalidInputError(detail, field="category")
        wish = ItemWish(
            whose=self.whose(body),
            category=category,
            words=Words(key=key, title=body["title"], content=body["content"]),
            expires_at=body["expires_at"],
        )
        done = service.put(
            principal=self.principal, wish=wish, now=timezone.now(), is_forced=force == "true"
        )
        return Response(ItemAnswer(done.item).data, status=201 if done.is_new else 200)

    @operation(
        "delete_memory",
        tag="Memory",
        summary="Delete a memory item with its history",
        description="Without a role the one of `default`. `user_preferences` needs the scope govern"
        " instead of write.",
        status=204,
        parameters=(*_OWNER, parameter("role", "Of this role; `default` if not given.")),
    )
    def delete(self, request: Request, category: str, key: str) -> Response:
        """Delete it, and all that was found of it."""
        service.delete(
            principal=self.principal,
            whose=self.asked(),
            category=_known(category),
            key=key,
            now=timezone.now(),
        )
        return Response(status=204)


class HistoryView(_ItemsView):
    """GET /v1/memories/{category}/{key}/history."""

    key_scopes = {"GET": KeyScope.READ}
    parameters = {"GET": PAGING | _WHOSE}

    @operation(
        "read_memory_history",
        tag="Memory",
        summary="List the versions of a memory item, newest first",
        answer=VersionAnswer,
        is_paged=True,
        parameters=(*_OWNER, _ONE_ROLE),
    )
    def get(self, request: Request, category: str, key: str) -> Response:
        """Return a page."""
        rows = service.history_of(
            principal=self.principal,
            whose=self.asked(),
            category=_known(category),
            key=key,
            now=timezone.now(),
        )
        return self.paged(rows, order=("-version", "-id"), answer=VersionAnswer)


def _known(category: str) -> str:
    if category not in ItemCategory.values:
        raise NotFoundError
    return category
