"""The URL map of /v1."""

from __future__ import annotations

from django.urls import URLPattern, path

from threads.api.views import (
    agents,
    artifacts,
    contexts,
    keys,
    memories,
    registers,
    runs,
    service,
    threads,
)

urlpatterns: list[URLPattern] = [
    path("openapi.json", service.OpenApiView.as_view(), name="openapi"),
    path("docs", service.DocsView.as_view(), name="docs"),
    path("agents", agents.AgentsView.as_view()),
    path("agents/<str:agent_id>", agents.AgentView.as_view()),
    path("agents/<str:agent_id>/run", runs.RunView.as_view()),
    path("agents/<str:agent_id>/run/stream", runs.RunStreamView.as_view()),
    path("agents/<str:agent_id>/context", contexts.ContextView.as_view()),
    path("agents/<str:agent_id>/threads", threads.AgentThreadsView.as_view()),
    path("providers", agents.ProvidersView.as_view()),
    path("providers/<str:provider_id>", agents.ProviderView.as_view()),
    path("policy", keys.PolicyView.as_view()),
    path("keys", keys.KeysView.as_view()),
    path("keys/<str:key_id>", keys.KeyView.as_view()),
    path("teams", registers.TeamsView.as_view()),
    path("teams/<str:team_id>", registers.TeamView.as_view()),
    path("jobs", registers.JobsView.as_view()),
    path("jobs/<str:job_id>/retry", registers.JobRetryView.as_view()),
    path("audit", registers.AuditView.as_view()),
    path("users", registers.UsersView.as_view()),
    path("users/<str:user>/timeline", memories.TimelineView.as_view()),
    path("memories/search", memories.SearchView.as_view()),
    path("memories/grep", memories.GrepView.as_view()),
    path("usage", registers.UsageView.as_view()),
    path("runs/<str:run_id>", runs.RunDetailView.as_view()),
    path("runs/<str:run_id>/trace", runs.RunTraceView.as_view()),
    path("runs/<str:run_id>/context", runs.RunContextView.as_view()),
    path("runs/<str:run_id>/cancel", runs.CancelView.as_view()),
    path("runs/<str:run_id>/artifacts/<str:artifact_id>", artifacts.ArtifactView.as_view()),
    path("threads/<str:thread_id>", threads.ThreadView.as_view()),
    path("threads/<str:thread_id>/archive", threads.ArchiveView.as_view()),
    path("threads/<str:thread_id>/unarchive", threads.UnarchiveView.as_view()),
    path("threads/<str:thread_id>/runs", threads.ThreadRunsView.as_view()),
    path("threads/<str:thread_id>/messages", threads.ThreadMessagesView.as_view()),
    path("threads/<str:thread_id>/summary", threads.SummaryView.as_view()),
    path("threads/<str:thread_id>/turns", threads.TurnsView.as_view()),
    path("messages/<str:message_id>", threads.MessageView.as_view()),
]
