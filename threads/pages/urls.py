"""Addresses of the chat page. Everything below a seat asks for the seat's cookie."""

from __future__ import annotations

from django.urls import URLPattern, path

from threads.pages.views import entry, panel, talk

app_name = "chat"
urlpatterns: list[URLPattern] = [
    path("", entry.choose, name="choose"),
    path("open/<str:token>", entry.open_link, name="open"),
    path("<str:seat_id>/", talk.page, name="page"),
    path("<str:seat_id>/ask", talk.ask, name="ask"),
    path("<str:seat_id>/history", talk.history, name="history"),
    path("<str:seat_id>/threads/<str:thread_id>/turns", talk.turns, name="turns"),
    path("<str:seat_id>/threads/<str:thread_id>/rename", talk.rename, name="rename"),
    path("<str:seat_id>/threads/<str:thread_id>/archive", talk.archive, name="archive"),
    path("<str:seat_id>/threads/<str:thread_id>/terms", panel.put_right, name="put_right"),
    path("<str:seat_id>/runs/<str:run_id>", talk.turn, name="turn"),
    path("<str:seat_id>/runs/<str:run_id>/stop", talk.stop, name="stop"),
    path("<str:seat_id>/runs/<str:run_id>/used", panel.used, name="used"),
    path(
        "<str:seat_id>/runs/<str:run_id>/artifacts/<str:artifact_id>",
        panel.artifact,
        name="artifact",
    ),
    path("<str:seat_id>/memory", panel.memory, name="memory"),
    path("<str:seat_id>/memory/facts", panel.add_fact, name="add_fact"),
    path(
        "<str:seat_id>/memory/candidates/<str:candidate_id>/confirm", panel.confirm, name="confirm"
    ),
    path("<str:seat_id>/memory/candidates/<str:candidate_id>/reject", panel.reject, name="reject"),
    path("<str:seat_id>/memory/facts/<str:fact_id>/forget", panel.forget, name="forget"),
    path(
        "<str:seat_id>/memory/preferences/<str:key>/forget",
        panel.forget_preference,
        name="forget_preference",
    ),
    path("<str:seat_id>/consent", panel.consent, name="consent"),
]
