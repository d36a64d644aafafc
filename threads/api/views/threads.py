"""Threads, their runs, messages and summaries, and turns made elsewhere."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from governance.models import KeyScope
from threads import catalogue
from threads.api.once import idempotent
from threads.api.schema import operation, parameter
from threads.api.serializers.base import Nothing
from threads.api.serializers.runs import RunAnswer, TurnBody
from threads.api.serializers.threads import (
    MessageAnswer,
    NewThreadBody,
    RenameBody,
    SummaryAnswer,
    ThreadAnswer,
)
from threads.api.views.base import PAGING, ApiView
from threads.forgetting.threads import delete_thread_of
from threads.models import ThreadStatus
from threads.turns import RecordedMessage, RecordedTurn

_ANY = "all"
_STATUSES = (ThreadStatus.ACTIVE.value, ThreadStatus.ARCHIVED.value, _ANY)


class AgentThreadsView(ApiView):
    """GET, POST /v1/agents/{agent_id}/threads."""

    key_scopes = {"GET": KeyScope.READ, "POST": KeyScope.WRITE}
    parameters = {"GET": PAGING | {"user_id", "status"}}
    answered_person_id: str | None = None

    @operation(
        "list_threads",
        tag="Threads",
        summary="List an agent's threads, newest first",
        answer=ThreadAnswer,
        is_paged=True,
        problems=(400,),
        parameters=(
            parameter("user_id", "Only this person's."),
            parameter("status", "active if not given.", choices=_STATUSES),
        ),
    )
    def get(self, request: Request, agent_id: str) -> Response:
        """Return a page; an unknown person has no threads."""
        status = self.word("status", choices=_STATUSES, default=ThreadStatus.ACTIVE.value)
        rows = catalogue.threads_of(
            principal=self.principal,
            agent_id=agent_id,
            user_id=request.query_params.get("user_id"),
            status=None if status == _ANY else status,
        )
        return self.paged(rows, order=("-updated_at", "-id"), answer=ThreadAnswer)

    @operation(
        "create_thread",
        tag="Threads",
        summary="Open a thread",
        body=NewThreadBody,
        answer=ThreadAnswer,
        status=201,
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, agent_id: str) -> Response:
        """Open a thread; its person is created on first write."""
        body = self.checked(NewThreadBody)
        thread = catalogue.create_thread(
            principal=self.principal, agent_id=agent_id, now=timezone.now(), **body
        )
        self.answered_person_id = thread.end_user_id
        return Response(ThreadAnswer(thread).data, status=201)


class ThreadView(ApiView):
    """GET, PATCH, DELETE /v1/threads/{thread_id}."""

    key_scopes = {"GET": KeyScope.READ, "PATCH": KeyScope.WRITE, "DELETE": KeyScope.ERASE}

    @operation("read_thread", tag="Threads", summary="Read a thread", answer=ThreadAnswer)
    def get(self, request: Request, thread_id: str) -> Response:
        """Return the thread."""
        thread = catalogue.read_thread(principal=self.principal, thread_id=thread_id)
        return Response(ThreadAnswer(thread).data)

    @operation(
        "rename_thread",
        tag="Threads",
        summary="Give a thread a title",
        body=RenameBody,
        answer=ThreadAnswer,
    )
    def patch(self, request: Request, thread_id: str) -> Response:
        """Rename the thread."""
        title = self.checked(RenameBody)["title"]
        thread = catalogue.rename_thread(
            principal=self.principal, thread_id=thread_id, title=title, now=timezone.now()
        )
        return Response(ThreadAnswer(thread).data)

    @operation(
        "delete_thread",
        tag="Threads",
        summary="Delete a thread with its turns and what was made of them",
        description="A run in flight is cancelled first. Facts that a person confirmed stay, and no"
        " longer say from which turn they came.",
        status=204,
        problems=(409,),
        codes={409: ("legal_hold",)},
    )
    def delete(self, request: Request, thread_id: str) -> Response:
        """Delete it; archiving only hides."""
        delete_thread_of(principal=self.principal, thread_id=thread_id, now=timezone.now())
        return Response(status=204)


class ArchiveView(ApiView):
    """POST /v1/threads/{thread_id}/archive."""

    key_scopes = {"POST": KeyScope.WRITE}
    answered_person_id: str | None = None

    @operation(
        "archive_thread",
        tag="Threads",
        summary="Hide a thread and refuse it new runs",
        body=Nothing,
        answer=ThreadAnswer,
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, thread_id: str) -> Response:
        """Archive; again changes nothing."""
        self.checked(Nothing)
        thread = catalogue.archive_thread(
            principal=self.principal, thread_id=thread_id, now=timezone.now()
        )
        self.answered_person_id = thread.end_user_id
        return Response(ThreadAnswer(thread).data)


class UnarchiveView(ApiView):
    """POST /v1/threads/{thread_id}/unarchive."""

    key_scopes = {"POST": KeyScope.WRITE}
    answered_person_id: str | None = None

    @operation(
        "unarchive_thread",
        tag="Threads",
        summary="Bring an archived thread back",
        body=Nothing,
        answer=ThreadAnswer,
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, thread_id: str) -> Response:
        """Unarchive; again changes nothing."""
        self.checked(Nothing)
        thread = catalogue.unarchive_thread(
            principal=self.principal, thread_id=thread_id, now=timezone.now()
        )
        self.answered_person_id = thread.end_user_id
        return Response(ThreadAnswer(thread).data)


class ThreadRunsView(ApiView):
    """GET /v1/threads/{thread_id}/runs."""

    key_scopes = {"GET": KeyScope.READ}
    parameters = {"GET": PAGING}

    @operation(
        "list_runs",
        tag="Threads",
        summary="List a thread's runs by seq",
        answer=RunAnswer,
        is_paged=True,
        problems=(400,),
    )
    def get(self, request: Request, thread_id: str) -> Response:
        """Return a page."""
        rows = catalogue.runs_of(principal=self.principal, thread_id=thread_id)
        return self.paged(rows, order=("seq",), answer=RunAnswer)


class ThreadMessagesView(ApiView):
    """GET /v1/threads/{thread_id}/messages."""

    key_scopes = {"GET": KeyScope.READ}
    parameters = {"GET": PAGING}

    @operation(
        "list_messages",
        tag="Threads",
        summary="List a thread's messages in order",
        answer=MessageAnswer,
        is_paged=True,
        problems=(400,),
    )
    def get(self, request: Request, thread_id: str) -> Response:
        """Return a page."""
        rows = catalogue.messages_of(principal=self.principal, thread_id=thread_id)
        return self.paged(rows, order=("run__seq", "position"), answer=MessageAnswer)


class MessageView(ApiView):
    """GET /v1/messages/{message_id}."""

    key_scopes = {"GET": KeyScope.READ}

    @operation("read_message", tag="Threads", summary="Read a message", answer=MessageAnswer)
    def get(self, request: Request, message_id: str) -> Response:
        """Return the message."""
        message = catalogue.read_message(principal=self.principal, message_id=message_id)
        return Response(MessageAnswer(message).data)


class SummaryView(ApiView):
    """GET /v1/threads/{thread_id}/summary."""

    key_scopes = {"GET": KeyScope.READ}

    @operation(
        "read_summary", tag="Threads", summary="Read a thread's summary", answer=SummaryAnswer
    )
    def get(self, request: Request, thread_id: str) -> Response:
        """Return the summary; an empty one while there is none."""
        summary = catalogue.read_summary(principal=self.principal, thread_id=thread_id)
        return Response(SummaryAnswer(summary).data)


class TurnsView(ApiView):
    """POST /v1/threads/{thread_id}/turns."""

    key_scopes = {"POST": KeyScope.WRITE}
    answered_person_id: str | None = None

    @operation(
        "record_turn",
        tag="Threads",
        summary="Record a turn made elsewhere",
        description="A repeat with the same external_id answers 200 with the first run.",
        body=TurnBody,
        answer=RunAnswer,
        status=201,
        also={200: "The run that this external_id was recorded as before"},
        problems=(409,),
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, thread_id: str) -> Response:
        """Record; nothing is called."""
        run, is_new = catalogue.record_turn(
            principal=self.principal,
            thread_id=thread_id,
            turn=_recorded(self.checked(TurnBody)),
            now=timezone.now(),
        )
        self.answered_person_id = run.end_user_id
        return Response(RunAnswer(run).data, status=201 if is_new else 200)


def _recorded(body: dict[str, Any]) -> RecordedTurn:
    messages = tuple(RecordedMessage(**message) for message in body.pop("messages", ()))
    return RecordedTurn(messages=messages, **body)
