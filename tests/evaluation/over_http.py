"""The subject over its public API, as any client would use it."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from tests.evaluation.datasets import EvalSet, Turn
from tests.evaluation.subject import Answer, EvaluationError, Found, Rest

_CALL_SECONDS: Final = 120
_REST_SECONDS: Final = 3600.0
_LOOK_SECONDS: Final = 0.5
_UNFINISHED: Final = ("ready", "running")


class HttpSubject:
    """A running service, reached with one key and one agent of one tenant."""

    def __init__(self, *, url: str, key: str, agent_id: str, may_run: bool, clients: int) -> None:
        self.clients = clients
        self._address = urlsplit(url)
        self._key = key
        self._agent_id = agent_id
        self._may_run = may_run
        self._local = threading.local()

    def record(self, *, of: EvalSet, session: Sequence[Turn]) -> None:
        """Record a session; a turn that is there already is left as it is."""
        thread = self._call(
            "POST",
            f"/v1/agents/{self._agent_id}/threads",
            {"user_id": of.user_id(session[0].person)},
        )
        for turn in session:
            body = {
                "input": turn.said,
                "output": turn.answered,
                "status": "succeeded",
                "created_at": turn.created_at,
                "external_id": of.external_id(turn.corpus_id),
            }
            self._call("POST", f"/v1/threads/{thread['id']}/turns", body)

    def come_to_rest(self) -> Rest:
        """Wait until no job of the tenant is ready or running, twice in a row."""
        until = time.monotonic() + _REST_SECONDS
        quiet = 0
        while quiet < 2:
            if time.monotonic() > until:
                raise EvaluationError("the worker did not come to rest within an hour")
            quiet = 0 if self._is_busy() else quiet + 1
            time.sleep(_LOOK_SECONDS)
        dead = (f"{job['kind']}: {job['error_code']}" for job in self._jobs("dead"))
        return Rest(jobs=Counter(job["kind"] for job in self._jobs("done")), dead=Counter(dead))

    def search(self, *, user_id: str, question: str, limit: int) -> Answer:
        """Ask POST /v1/memories/search for recall entries, whatever their score."""
        body = {
            "query": question,
            "user_id": user_id,
            "kinds": ["recall"],
            "limit": limit,
            "min_score": 0,
        }
        started = time.perf_counter()
        answer = self._call("POST", "/v1/memories/search", body)
        ms = (time.perf_counter() - started) * 1000
        found = tuple(
            Found(
                external_id=result["source"].get("external_id"),
                relevance=result["scores"]["relevance"],
            )
            for result in answer["results"]
        )
        return Answer(found=found, ms=ms, degraded=_names(answer.get("degraded")))

    def inner_millis(self, *, user_id: str, questions: Sequence[str]) -> list[float]:
        """Ask the questions as runs and read the retrieval steps of their traces."""
        if not self._may_run:
            return []
        spent: list[float] = []
        for question in questions:
            body = {"input": question, "user_id": user_id}
            run = self._call("POST", f"/v1/agents/{self._agent_id}/run", body)
            steps = self._call("GET", f"/v1/runs/{run['id']}/trace")["steps"]
            spent += [step["ms"] for step in steps if step["kind"] == "retrieval"]
        return spent

    def _is_busy(self) -> bool:
        pages = (self._call("GET", f"/v1/jobs?status={status}&limit=1") for status in _UNFINISHED)
        return any(page["results"] for page in pages)

    def _jobs(self, status: str) -> Iterator[dict[str, Any]]:
        path = f"/v1/jobs?status={status}&limit=200"
        while path:
            page = self._call("GET", path)
            yield from page["results"]
            following = urlsplit(page["next"] or "")
            path = f"{following.path}?{following.query}" if page["next"] else ""

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        """One request on this thread's own kept-open connection; once more if it was closed."""
        raw = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        try:
            status, text = self._exchange(method, path, raw)
        except (http.client.RemoteDisconnected, ConnectionError):
            self._local.connection = None
            status, text = self._exchange(method, path, raw)
        if status >= 400:
            raise EvaluationError(f"{method} {path} answered {status}: {text[:500]!r}")
        return json.loads(text)

    def _exchange(self, method: str, path: str, raw: bytes | None) -> tuple[int, bytes]:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            kind = (
                http.client.HTTPSConnection
                if self._address.scheme == "https"
                else http.client.HTTPConnection
            )
            connection = kind(self._address.netloc, timeout=_CALL_SECONDS)
            self._local.connection = connection
        headers = {"Authorization": f"Bearer {self._key}"}
        if raw is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, path, body=raw, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def _names(degraded: str | None) -> tuple[str, ...]:
    """The degradations of an answer, which stand with commas between them."""
    if not degraded:
        return ()
    return tuple(degraded.split(","))
