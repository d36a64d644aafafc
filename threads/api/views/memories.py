"""Looking into a person's memory: by meaning, by text, by time."""

from __future__ import annotations

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from governance.models import KeyScope
from threads import memories
from threads.api.pagination import InvalidParameterError
from threads.api.schema import operation, parameter
from threads.api.serializers.memories import (
    FoundMemoriesAnswer,
    GrepAnswer,
    GrepBody,
    SearchBody,
    TimelineEntryAnswer,
)
from threads.api.views.base import PAGING, ApiView
from threads.memories import MemoryGrep, MemorySearch

_MOST_ROLE = 64


class SearchView(ApiView):
    """POST /v1/memories/search."""

    key_scopes = {"POST": KeyScope.READ}

    @operation(
        "search_memories",
        tag="Memory",
        summary="Search a person's memory, best first",
        description="Only what bears on the query is found; an unknown person has nothing.",
        body=SearchBody,
        answer=FoundMemoriesAnswer,
    )
    def post(self, request: Request) -> Response:
        """Return what was found, with the parts of every score."""
        found = memories.search_memories(
            principal=self.principal,
            wanted=MemorySearch(**self.checked(SearchBody)),
            now=timezone.now(),
        )
        return Response(FoundMemoriesAnswer(found).data)


class GrepView(ApiView):
    """POST /v1/memories/grep."""

    key_scopes = {"POST": KeyScope.READ}

    @operation(
        "grep_memories",
        tag="Memory",
        summary="Find a person's messages and items that contain a text, newest first",
        description="A content over 20,000 characters is cut there, and ends in …",
        body=GrepBody,
        answer=GrepAnswer,
    )
    def post(self, request: Request) -> Response:
        """Return the messages."""
        wanted = MemoryGrep(**self.checked(GrepBody))
        if wanted.start_time and wanted.end_time and wanted.start_time > wanted.end_time:
            raise InvalidParameterError("start_time is after end_time.", field="start_time")
        hits = memories.grep_memories(principal=self.principal, wanted=wanted, now=timezone.now())
        return Response(GrepAnswer({"results": hits}).data)


class TimelineView(ApiView):
    """GET /v1/users/{user}/timeline."""

    key_scopes = {"GET": KeyScope.READ}
    parameters = {"GET": PAGING | {"role"}}

    @operation(
        "read_timeline",
        tag="Memory",
        summary="List what happened with a person, newest first",
        description="Turns, by one line of question and answer, and the threads that were begun."
        " `user` is the percent-encoded user_id or the `usr_` id.",
        answer=TimelineEntryAnswer,
        is_paged=True,
        problems=(400,),
        parameters=(parameter("role", "Only with agents of this role."),),
    )
    def get(self, request: Request, user: str) -> Response:
        """Return a page; an unknown person has none."""
        role = request.query_params.get("role")
        if role is not None and not 1 <= len(role) <= _MOST_ROLE:
            raise InvalidParameterError(f"role is 1 to {_MOST_ROLE} characters.", field="role")
        sources = memories.timeline_of(principal=self.principal, user_id=user, role=role)
        return self.paged_together(
            (sources.turns, sources.threads),
            order=("-created_at", "-id"),
            answer=TimelineEntryAnswer,
        )
