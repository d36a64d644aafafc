"""The admin alone, where the service will have it."""

from __future__ import annotations

from django.urls import path

from governance.admin.site import site
from threads.api.views.people import ExportDownloadView

urlpatterns = [
    path("admin/", site.urls),
    path("exports/<str:token>", ExportDownloadView.as_view()),
]
