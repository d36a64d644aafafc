"""Threads: the conversation page, where alone the session-private summary is readable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from governance.admin.base import ScopedModelAdmin
from governance.admin.filters import ScopedRelatedFilter
from governance.admin.site import site
from governance.admin.staff import narrow_to, scope_for
from governance.admin.text import shown, visible
from memory.scope import Scope
from threads.forest.reading import read_forest
from threads.models import Message, Run, Thread, ThreadSummary

RUNS_A_PAGE = 20
SHOWN_CHARACTERS = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """One message as the page shows it."""

    message: Message
    text: SafeString


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One run with its messages in order."""

    run: Run
    utterances: tuple[Utterance, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPage:
    """Up to 20 turns, oldest first, and the seq before which older ones are, if there are any."""

    turns: tuple[Turn, ...]
    older_before: int | None


def turns_before(*, scope: Scope, thread_id: str, before: int | None) -> TurnPage:
    """Return the newest turns of a thread, or those before a seq. Cost: two queries, no count."""
    runs = Run.objects.in_scope(scope).filter(thread_id=thread_id).order_by("-seq")
    runs = runs.defer("input", "output", "context", "metadata")
    if before is not None:
        runs = runs.filter(seq__lt=before)
    found = list(runs[: RUNS_A_PAGE + 1])
    page = found[:RUNS_A_PAGE]
    by_run: dict[str, list[Utterance]] = {run.pk: [] for run in page}
    messages = Message.objects.in_scope(scope).filter(thread_id=thread_id, run_id__in=list(by_run))
    for message in messages.order_by("run_id", "position"):
        text = visible(message.content, limit=SHOWN_CHARACTERS)
        by_run[message.run_id].append(Utterance(message=message, text=text))
    turns = tuple(Turn(run=run, utterances=tuple(by_run[run.pk])) for run in reversed(page))
    has_more = len(found) > RUNS_A_PAGE
    return TurnPage(turns=turns, older_before=page[-1].seq if has_more else None)


@admin.register(Thread, site=site)
class ThreadAdmin(ScopedModelAdmin[Thread]):
    """Conversations, read-only."""

    change_form_template = "admin/threads/thread/change_form.html"
    list_display = (
        "id", "tenant", shown("agent__name", label=_("agent")),
        shown("end_user__user_id", label=_("end user")), shown("title"), "status", "run_count",
        "updated_at",
    )  # fmt: skip
    list_filter = (
        ("tenant", ScopedRelatedFilter),
        ("agent", ScopedRelatedFilter),
        "status",
        ("updated_at", admin.DateFieldListFilter),
    )
    list_select_related = ("tenant", "agent", "end_user")
    list_defer = ("agent__system_prompt",)
    search_fields = ("=id", "=end_user__user_id", "=external_key", "title")
    fields = (
        "id", "tenant", "agent", "end_user", shown("title"), shown("external_key"), "status",
        "run_count", "created_at", "updated_at",
    )  # fmt: skip
    readonly_fields = fields

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show the thread with its turns, its own summary and its forest, inside its session.

        Cost: five queries more than a plain page, whatever the length of the thread.
        """
        thread = self.get_object(request, unquote(object_id))
        scope = scope_for(request, self.view_permission)
        if thread is None or scope is None or request.method != "GET":
            return super().change_view(request, object_id, form_url, extra_context)
        own = scope.for_tenant(tenant_id=thread.tenant_id)
        own = own.narrowed(user_id=thread.end_user_id, thread_id=thread.pk)
        narrow_to(request, own)
        summary = ThreadSummary.objects.in_scope(own).first()
        context = (extra_context or {}) | {
            "summary": summary,
            "summary_text": visible(summary.rolling_summary) if summary else "",
            "roots": [
                {"node": root, "text": visible(root.summary)}
                for root in read_forest(scope=own, thread_id=thread.pk).roots
            ],
            "page": turns_before(scope=own, thread_id=thread.pk, before=_before(request)),
        }
        return super().change_view(request, object_id, form_url, context)


def _before(request: HttpRequest) -> int | None:
    raw = request.GET.get("before", "")
    return int(raw) if raw.isascii() and raw.isdigit() and len(raw) < 19 else None
