"""The URL map of the whole service."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from governance.admin.site import site
from threads.api.views.people import ExportDownloadView
from threads.api.views.service import HealthView, ReadyView, RootView

urlpatterns: list[URLPattern | URLResolver] = [
    path("", RootView.as_view()),
    path("admin", RedirectView.as_view(url="/admin/")),
    path("admin/", site.urls),
    path("chat", RedirectView.as_view(url="/chat/")),
    path("chat/", include("threads.pages.urls")),
    path("healthz", HealthView.as_view()),
    path("readyz", ReadyView.as_view()),
    path("exports/<str:token>", ExportDownloadView.as_view()),
    path("v1/", include("threads.api.urls")),
]
handler400 = "threads.api.errors.bad_request"
handler403 = "threads.api.errors.forbidden"
handler404 = "threads.api.errors.not_found"
handler500 = "threads.api.errors.server_error"
