"""The page itself, its turns and its history, and asking."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from governance import access
from memory.errors import NotFoundError
from threads import catalogue
from threads.api.running import RunCall, drive_stream, respond, show_stream
from threads.models import Thread
from threads.pages import shown
from threads.pages.forms import QuestionForm, TitleForm, checked
from threads.pages.notice import notice_for
from threads.pages.seats import Seat, seated
from threads.request import RunRequest


def words_of_script() -> dict[str, str]:
    """Return the sentences that the page's script says by itself, in the reader's language."""
    return {
        "failed": _("No answer came. Nothing of it is remembered; ask again."),
        "offline": _("The connection broke. What was answered until then is not remembered."),
        "unauthenticated": _("This page has ended. Open it again from where you came."),
        "thread_archived": _("This conversation is archived. Bring it back first."),
        "context_over_budget": _("The question is too long for this model. Shorten it."),
        "core_full": _("Confirmed facts are full. Confirm again to let the least used one go."),
        "already_decided": _("Somebody decided this meanwhile."),
        "not_found": _("This is not there any more."),
        "not_admitted": _("This can not be remembered: it holds something that must not be kept."),
        "rate_limited": _("Too many requests; wait a moment."),
        "thinking": _("Thinking …"),
        "tool": _("Uses a tool:"),
        "copied": _("Copied."),
        "answered": _("The answer is complete."),
        "cancelled": _("Stopped. Nothing of it is remembered."),
    }


@require_GET
@seated
def page(request: HttpRequest, seat: Seat) -> HttpResponseBase:
    """Show the thread that is named, else the latest active one, else a new one."""
    talk = None
    if request.GET.get("new") is None:
        thread_id = request.GET.get("thread") or getattr(shown.latest_thread(seat=seat), "pk", None)
        try:
            talk = shown.talk_of(seat=seat, thread_id=thread_id) if thread_id else None
        except NotFoundError:
            return HttpResponseRedirect(request.path)
    context = _context(seat) | {
        "talk": talk,
        "threads": shown.threads_of(seat=seat),
        "memory": shown.memory_of(seat=seat, now=timezone.now()),
        "agent": shown.agent_of(seat=seat),
        "notice": notice_for(scope=access.tenant_scope(seat.principal), agent_id=seat.agent_id),
        "words": words_of_script(),
    }
    return TemplateResponse(request, "threads/chat/page.html", context)


def _context(seat: Seat) -> dict[str, Any]:
    return {"seat": seat}


@require_GET
@seated
def turns(request: HttpRequest, seat: Seat, thread_id: str) -> HttpResponseBase:
    """Return earlier turns of a thread, before a seq."""
    raw = request.GET.get("before", "")
    before = int(raw) if raw.isascii() and raw.isdigit() and len(raw) < 19 else None
    talk = shown.talk_of(seat=seat, thread_id=thread_id, before=before)
    context = _context(seat) | {"talk": talk}
    return TemplateResponse(request, "threads/chat/turns.html", context)


@require_GET
@seated
def turn(request: HttpRequest, seat: Seat, run_id: str) -> HttpResponseBase:
    """Return one turn as it stands."""
    bubble = shown.run_of(seat=seat, run_id=run_id)
    context = _context(seat) | {"bubble": bubble}
    return TemplateResponse(request, "threads/chat/turn.html", context)


@require_GET
@seated
def history(request: HttpRequest, seat: Seat) -> HttpResponseBase:
    """Return the list of threads, by title if words are given, the archived ones if asked."""
    return _history(request, seat)


def _history(request: HttpRequest, seat: Seat) -> HttpResponseBase:
    asked = request.GET if request.method == "GET" else request.POST
    text, is_archived = asked.get("q", "")[:200].replace("\0", ""), bool(asked.get("archived"))
    context = _context(seat) | {
        "threads": shown.threads_of(seat=seat, text=text.strip(), is_archived=is_archived),
        "is_archived": is_archived,
        "text": text,
    }
    return TemplateResponse(request, "threads/chat/history.html", context)


@require_POST
@seated
def rename(request: HttpRequest, seat: Seat, thread_id: str) -> HttpResponseBase:
    """Give a thread another title."""
    title = checked(TitleForm, request)["title"]
    catalogue.rename_thread(
        principal=seat.principal, thread_id=thread_id, title=title, now=timezone.now()
    )
    return _history(request, seat)


@require_POST
@seated
def archive(request: HttpRequest, seat: Seat, thread_id: str) -> HttpResponseBase:
    """Archive a thread, or bring it back."""
    move: Any = catalogue.archive_thread
    if request.POST.get("back"):
        move = catalogue.unarchive_thread
    thread: Thread = move(principal=seat.principal, thread_id=thread_id, now=timezone.now())
    response = _history(request, seat)
    response["X-Credence-Thread"] = f"{thread.pk} {thread.status}"
    return response


@require_POST
@seated
def ask(request: HttpRequest, seat: Seat) -> HttpResponseBase:
    """Stream the answer to a question, as the API does."""
    asked = checked(QuestionForm, request)
    continues = asked["continues"] or None
    if continues:
        catalogue.require_continuable(
            principal=seat.principal,
            agent_id=seat.agent_id,
            user_id=seat.user_id,
            run_id=continues,
        )
    call = RunCall(
        request=request,
        principal=seat.principal,
        agent_id=seat.agent_id,
        asked=RunRequest(
            input=asked["input"],
            user_id=seat.user_id,
            thread_id=asked["thread_id"] or None,
            continues_run_id=continues,
        ),
        key=None,
    )
    return respond(call, drive=drive_stream, show=show_stream)


@require_POST
@seated
def stop(_request: HttpRequest, seat: Seat, run_id: str) -> HttpResponseBase:
    """Cancel a run that is on its way."""
    catalogue.cancel_run(principal=seat.principal, run_id=run_id, now=timezone.now())
    return HttpResponse(status=204)
