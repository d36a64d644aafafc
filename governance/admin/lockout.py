"""What staff see who gave too many wrong passwords."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from governance.admin.site import site
from memory.conf import login_cool_off


def locked_out(request: HttpRequest, *_told: object) -> HttpResponse:
    """Return the page of a locked door, 429; it names nobody, and says alike for any name."""
    seconds = int(login_cool_off().total_seconds())
    context = {"minutes": max(1, round(seconds / 60)), "site_header": site.site_header}
    answer = render(request, "admin/credence/locked.html", context, status=429)
    answer["Retry-After"] = str(seconds)
    answer["Cache-Control"] = "no-store"
    return answer
