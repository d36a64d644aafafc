"""One caller of the API: posts, tries again through faults, and looks at every answer."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from tests.soak.findings import Findings

PATIENCE_SECONDS = 90.0
AGAIN_SECONDS = 0.4
_BROKEN = (OSError, http.client.HTTPException)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The last answer; status 0 if there was none."""

    status: int
    text: str = ""
    attempts: int = 1

    @property
    def body(self) -> Any:
        """Its JSON, an empty object if it is none."""
        try:
            return json.loads(self.text)
        except ValueError:
            return {}

    @property
    def is_good(self) -> bool:
        """Whether it did what was asked."""
        return 200 <= self.status < 300


@dataclass(frozen=True, kw_only=True)
class Api:
    """Whoever holds a tenant's key; `person` None is staff, who may see the tenant's every text."""

    port: int
    key: str
    tenant: str
    person: str | None
    findings: Findings

    def send(
        self, method: str, path: str, body: Any = None, *, once: bool = False, what: str = ""
    ) -> Reply:
        """Ask, again through faults; `once` adds an Idempotency-Key, so that it is done once."""
        headers = {"Idempotency-Key": uuid4().hex} if once else {}
        until = time.monotonic() + PATIENCE_SECONDS
        attempts = 0
        while True:
            attempts += 1
            began = time.monotonic()
            reply = self._attempt(method, path, body, headers, attempts)
            name = what or f"{method} {path.split('?', maxsplit=1)[0].rsplit('/', 1)[-1]}"
            if reply.status and reply.status < 500 and reply.status != 429:
                self.findings.took(name, time.monotonic() - began)
                return self._looked_at(name, reply)
            self.findings.count(f"again after {reply.status or 'a broken connection'}")
            if reply.status == 500:
                self.findings.wrong("answer 500", f"{name}: {reply.text[:200]}")
            if time.monotonic() > until:
                self.findings.count(f"gave up {name}")
                return reply
            time.sleep(AGAIN_SECONDS * min(attempts, 5))

    def _attempt(
        self, method: str, path: str, body: Any, headers: Mapping[str, str], attempts: int
    ) -> Reply:
        try:
            connection = self._open(method, path, body, headers)
        except _BROKEN:
            return Reply(status=0, attempts=attempts)
        try:
            response = connection.getresponse()
            text = response.read().decode()
            return Reply(status=response.status, text=text, attempts=attempts)
        except _BROKEN:
            return Reply(status=0, attempts=attempts)
        finally:
            connection.close()

    def stream(self, path: str, body: Any, *, leave_after: str | None) -> tuple[int, list[Any]]:
        """Post a stream and read its events; leave at the first event of the name `leave_after`."""
        try:
            connection = self._open("POST", path, body, {})
        except _BROKEN:
            return 0, []
        events: list[Any] = []
        try:
            response = connection.getresponse()
            if response.status != 200:
                self._looked_at("stream", Reply(status=response.status, text=""))
                return response.status, []
            self._read(response, events, leave_after)
        except (*_BROKEN, ValueError):
            events.append(("broken", {}))
        finally:
            connection.close()
        self.findings.look(where="stream", text=str(events), tenant=self.tenant, person=self.person)
        return 200, events

    def _read(self, response: Any, events: list[Any], leave_after: str | None) -> None:
        name = ""
        while line := response.readline().decode():
            if line.startswith("event: "):
                name = line[7:].strip()
            elif line.startswith("data: "):
                events.append((name, json.loads(line[6:])))
                if name == leave_after:
                    events.append(("left", {}))
                    response.close()
                    return

    def _looked_at(self, name: str, reply: Reply) -> Reply:
        self.findings.count(f"status {reply.status}")
        if reply.status >= 400:
            self.findings.count(f"refused {name} {reply.status} {reply.body.get('code', '')}")
        self.findings.look(where=name, text=reply.text, tenant=self.tenant, person=self.person)
        return reply

    def _open(
        self, method: str, path: str, body: Any, headers: Mapping[str, str]
    ) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        given = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, content, given | dict(headers))
        except OSError:
            connection.close()
            raise
        return connection
