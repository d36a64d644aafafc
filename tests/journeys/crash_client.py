"""A client of one agent: posts runs in threads of its own and keeps what it was told."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

AGAIN_SECONDS = 0.2
PATIENCE_SECONDS = 90.0


@dataclass(kw_only=True)
class Call:
    """One run as its client sees it; `status` is 0 if the connection broke and nobody tried again."""

    client: Client
    text: str
    thread_id: str | None = None
    key: str | None = None
    status: int = 0
    attempts: int = 0
    answer: dict[str, Any] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> Call:
        """Post it from a thread; with a key, again and again until it is answered for good."""
        threading.Thread(target=self._carry_out, daemon=True).start()
        return self

    def wait(self, seconds: float = PATIENCE_SECONDS) -> Call:
        """Wait until the client has its answer or has given up."""
        assert self.ended.wait(seconds), f"no end of {self.text!r} for its client"
        return self

    def _carry_out(self) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        try:
            while time.monotonic() < until:
                self._attempt()
                if self.key is None or 200 <= self.status < 500:
                    return
                time.sleep(AGAIN_SECONDS)
        finally:
            self.ended.set()

    def _attempt(self) -> None:
        self.attempts += 1
        client, headers = self.client, {} if self.key is None else {"Idempotency-Key": self.key}
        path = f"/v1/agents/{client.agent_id}/run"
        body = client.body(self.text, thread_id=self.thread_id)
        try:
            self.status, self.answer = client.request("POST", path, body, headers)
        except (OSError, http.client.HTTPException, ValueError):
            self.status = 0


@dataclass(frozen=True, kw_only=True)
class Client:
    """Whoever holds the key of an agent's tenant, speaking for one user."""

    port: int
    key: str
    agent_id: str
    user_id: str = "crash-user"

    def body(self, text: str, *, thread_id: str | None = None) -> dict[str, Any]:
        """The body of a run."""
        values = {"input": text, "user_id": self.user_id}
        return values if thread_id is None else values | {"thread_id": thread_id}

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """One request on a connection of its own."""
        connection = self._send(method, path, body, headers)
        try:
            response = connection.getresponse()
            return response.status, json.loads(response.read() or b"{}")
        finally:
            connection.close()

    def run(self, text: str, *, thread_id: str | None = None) -> dict[str, Any]:
        """One run that must succeed."""
        call = self.call(text, thread_id=thread_id).begin().wait()
        assert call.status == 200, call
        return call.answer

    def call(self, text: str, *, thread_id: str | None = None, key: str | None = None) -> Call:
        """A run that is not posted yet."""
        return Call(client=self, text=text, thread_id=thread_id, key=key)

    def ask_and_leave(self, text: str, *, once: Callable[[], object]) -> None:
        """Post a run and close the connection when `once` returns."""
        connection = self._send("POST", f"/v1/agents/{self.agent_id}/run", self.body(text))
        once()
        connection.close()

    def stream(self, text: str, *, thread_id: str | None = None) -> Stream:
        """Open a stream; the caller reads its lines and closes it."""
        path = f"/v1/agents/{self.agent_id}/run/stream"
        connection = self._send("POST", path, self.body(text, thread_id=thread_id))
        return Stream(connection, connection.getresponse())

    def _send(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        given = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, content, given | dict(headers or {}))
        except OSError:
            connection.close()
            raise
        return connection


class Stream:
    """An open event stream."""

    def __init__(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse
    ) -> None:
        """Take the connection and what answers on it."""
        self._connection = connection
        self._response = response
        assert response.status == 200, response.read()

    def event(self) -> tuple[str, dict[str, Any]]:
        """The next event; name "" at the end or where the connection broke."""
        name = ""
        while True:
            try:
                line = self._response.readline().decode()
            except (OSError, http.client.HTTPException):
                return "", {}
            if not line:
                return "", {}
            if line.startswith("event: "):
                name = line[7:].strip()
            elif line.startswith("data: "):
                return name, json.loads(line[6:])

    def close(self) -> None:
        """Leave."""
        self._response.close()
        self._connection.close()
