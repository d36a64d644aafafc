"""The browser that is installed here, for pytest-playwright: nothing is ever downloaded."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.browser.chrome import browser_path

_QUIET = (
    "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--force-color-profile=srgb",
)  # fmt: skip


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """Start that browser; as root without its sandbox, which needs another user."""
    rest = ("--no-sandbox",) if os.geteuid() == 0 else ()
    return browser_type_launch_args | {"executable_path": browser_path(), "args": [*_QUIET, *rest]}
