"""The admin alone, where the service will have it."""

from __future__ import annotations

from django.urls import path

from governance.admin.site import site

urlpatterns = [path("admin/", site.urls)]
