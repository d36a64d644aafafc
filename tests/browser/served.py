"""The service in this process, so that its clock can be moved: pages, static files, the API."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.handlers.wsgi import WSGIHandler
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler

from memory.jobs import due_jobs
from memory.lanes import lane_of
from memory.models import Tenant
from memory.providers import registry
from tests.asgi_client import AsgiClient
from tests.factories import MadeKey
from threads import tasks


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Nothing."""


class Service:
    """A Credence whose pages a browser can open and whose API can be called."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url

    def call(self, key: MadeKey, path: str, body: dict[str, Any] | None = None) -> Any:
        """Call the API through the handler that serves it; the answer's JSON."""

        async def once() -> Any:
            client = AsgiClient(key.headers)
            try:
                if body is None:
                    return await client.get(path)
                return await client.post(path, body)
            finally:
                await registry.close_loop()

        answer = asyncio.run(once())
        assert answer.status < 300, answer.body
        return answer.json()

    def work(self, tenant: Tenant) -> None:
        """Let the worker do all that is due."""
        lane = lane_of(tenant.pk)
        while due_jobs(lane=lane, most=1):
            report = tasks.work_lane(lane=lane, handlers=tasks.HANDLERS)
            assert report.failed == 0, report
            if report.done == 0:
                return


@contextmanager
def served() -> Iterator[Service]:
    """Serve on a free port of the loopback interface until the test is through."""
    application = WSGIHandler()
    server = ThreadedWSGIServer(("127.0.0.1", 0), _QuietHandler, connections_override=None)
    server.set_app(application)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Service(f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
