"""Headers of every answer, and that no page needs what they forbid."""

from __future__ import annotations

import pytest
from django.test import Client

UNSAFE = ("unsafe-inline", "unsafe-eval", "http:", "https:", "*")


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path", ["/admin/login/", "/v1/docs", "/v1/agents", "/healthz", "/no-such-path", "/v1/nothing"]
)
def test_every_answer_carries_the_headers_and_no_unsafe_source(path: str) -> None:
    answer = Client().get(path)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert not [word for word in UNSAFE if word in policy]
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "camera=()" in answer.headers["Permissions-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["X-Frame-Options"] == "DENY"


@pytest.mark.django_db
def test_api_may_load_nothing_and_pages_only_our_own_files() -> None:
    assert "script-src" not in Client().get("/v1/agents").headers["Content-Security-Policy"]
    assert "script-src 'self'" in Client().get("/admin/login/").headers["Content-Security-Policy"]


@pytest.mark.django_db
def test_documentation_has_its_script_and_style_in_files_of_this_server() -> None:
    page = Client().get("/v1/docs").content.decode()
    assert "<style" not in page
    assert "<script>" not in page
    script = Client().get("/v1/docs?script=")
    assert script.headers["Content-Type"].startswith("application/javascript")
    assert "/v1/openapi.json" in script.content.decode()
