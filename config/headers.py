"""Headers that tell a browser what a page of ours may do: nothing that it does not need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from csp.constants import NONE, SELF
from csp.middleware import CSPMiddleware, PolicyParts
from django.http import HttpRequest
from django.http.response import HttpResponseBase

# Of the API, files and errors nothing is ever run or shown in a frame.
SILENT: Final = {
    "default-src": [NONE],
    "base-uri": [NONE],
    "form-action": [NONE],
    "frame-ancestors": [NONE],
}
# The admin, the chat page and the page of documentation: own files only, no script and no style inside a page.
PAGES: Final = SILENT | {
    "script-src": [SELF],
    "style-src": [SELF],
    "img-src": [SELF, "data:"],
    "font-src": [SELF],
    "connect-src": [SELF],
    "form-action": [SELF],
}
OTHERS: Final = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": (
        "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(),"
        " microphone=(), payment=(), usb=()"
    ),
    "Referrer-Policy": "same-origin",
}


class ContentPolicyMiddleware(CSPMiddleware):
    """Sets Content-Security-Policy by path: pages may load our own files, nothing else anything."""

    def get_policy_parts(
        self,
        request: HttpRequest,
        response: HttpResponseBase,
        report_only: bool = False,  # noqa: FBT001, FBT002 - the library's signature
    ) -> PolicyParts:
        """Return the policy of an answer; there is none that only reports."""
        if report_only:
            return PolicyParts(config=None)
        is_page = request.path == "/v1/docs" or request.path.startswith(("/admin/", "/chat/"))
        return PolicyParts(config=dict(PAGES if is_page else SILENT))


class HeadersMiddleware:
    """Sets what every answer says besides its content policy, whoever made it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        """Keep the rest of the stack."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Serve the request and mark its answer."""
        response = self.get_response(request)
        for name, value in OTHERS.items():
            response[name] = value
        return response
