"""The tools of one run: what may be called, calling it, and what was written meanwhile."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from django.db import DEFAULT_DB_ALIAS, DatabaseError, connection, connections

from governance.access import with_teams
from governance.keys import is_revoked
from governance.policy_rules import Policy
from governance.secrets import strip_secrets
from memory.compression.tool_results import shorten_result
from memory.errors import ScopeError
from memory.ids import new_id
from memory.language import Language
from memory.providers.base import ToolCall, ToolSpec
from memory.rls import narrow_open_scope, scoped_transaction
from memory.sanitize import sanitize
from memory.scope import Scope
from memory.tokens import estimate
from threads.recall.finding import QuestionVector, embed_question
from threads.tools.arguments import Arguments, mended, read_arguments
from threads.tools.files import WrittenFiles
from threads.tools.grep import grep
from threads.tools.items import WrittenItems
from threads.tools.knowledge import kb_search
from threads.tools.records import (
    NewArtifact,
    ToolOutcome,
    ToolPlace,
    ToolRefusedError,
    ToolResult,
    UpsertedItem,
    WorkspaceFile,
)
from threads.tools.search import asked_for, memory_search
from threads.tools.specs import Tool, tools_among
from threads.tools.timeline import timeline
from threads.tools.view import OnHand, view

MOST_STATEMENT_MS: Final = 5000
_MOST_SUMMARY: Final = 200
_MOST_NAMED: Final = 64
_SEARCHES: Final = {"memory_search": memory_search, "kb_search": kb_search}


@dataclass(kw_only=True)
class _Timing:
    """Milliseconds spent in each stage of a call, by its name."""

    stages: dict[str, float]
    last: float

    def end(self, stage: str) -> None:
        now = time.perf_counter()
        self.stages[stage] = round((now - self.last) * 1000, 3)
        self.last = now


class ToolBox:
    """The tools of one run of one person; it buffers what they write."""

    def __init__(
        self,
        *,
        scope: Scope,
        agent_id: str,
        role: str,
        language: Language,
        tools: Sequence[str],
        policy: Policy,
        workspace: Sequence[WorkspaceFile] = (),
    ) -> None:
        """Take the session's scope, which names person and thread, and the agent's settings.

        Raises:
            ScopeError: The scope names no person or no thread.
        """
        if not (scope.user_id and scope.thread_id):
            raise ScopeError
        most_tokens = policy.count("long_tool_result_tokens")
        self.agent_id = agent_id
        self._place = ToolPlace(scope=scope, role=role, most_tokens=most_tokens, policy=policy)
        self._language = language
        self._tools = {tool.name: tool for tool in tools_among(tools)}
        self._workspace = tuple(workspace)
        self._files = WrittenFiles()
        self._items = WrittenItems()
        self._results: dict[str, str] = {}

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the tools as a provider is told of them, in an order that stays the same."""
        return tuple(tool.spec() for tool in self._tools.values())

    @property
    def written(self) -> tuple[NewArtifact, ...]:
        """What was written, the last version of each name; stored only if the run succeeds."""
        return self._files.all

    @property
    def upserted(self) -> tuple[UpsertedItem, ...]:
        """What is to be remembered, the last word under each key; only if the run succeeds."""
        return self._items.all

    def call(self, *, call: ToolCall, now: datetime) -> ToolOutcome:
        """Run one call; whatever is wrong with it is an error result, and the run goes on.

        Blocks on the database: one short scoped transaction, each statement at most 5 seconds.
        What searches embeds its query before, for at most a second.

        Raises:
            django.db.Error: The database is lost.
        """
        began = time.perf_counter()
        timing = _Timing(stages={}, last=began)
        is_error = False
        try:
            result = self._run(call, now, timing)
        except ToolRefusedError as error:
            is_error = True
            result = ToolResult(text=f"Error: {error.detail}", summary=f"error: {error.detail}")
        timing.end("work_ms")
        outcome = self._outcome(call, result, is_error=is_error, now=now, timing=timing)
        self._results[outcome.reference_id] = outcome.content
        return outcome

    def _run(self, call: ToolCall, now: datetime, timing: _Timing) -> ToolResult:
        tool = self._tools.get(call.name)
        if tool is None:
            names = ", ".join(self._tools) or "none"
            asked = mended(call.name)[:_MOST_NAMED]
            raise ToolRefusedError(f'There is no tool "{asked}"; there are: {names}.')
        arguments = read_arguments(tool=tool, raw=call.arguments)
        timing.end("check_ms")
        if tool.name == "write_artifact":
            return self._files.write(arguments)
        return self._asking(tool, arguments, now, timing)

    def _asking(
        self, tool: Tool, arguments: Arguments, now: datetime, timing: _Timing
    ) -> ToolResult:
        """Run a tool that asks the database; only where that is lost, the run can not go on."""
        try:
            if tool.name == "memory_upsert":
                return self._items.upsert(self._place, arguments, now)
            found = self._read(tool, arguments, now, timing)
        except DatabaseError as error:
            if _is_database_lost():
                raise
            raise ToolRefusedError("It took too long or failed; ask for less.") from error
        if tool.name == "memory_grep":
            return self._items.with_grep(found, arguments.text("query"))
        if tool.name == "memory_search":
            return self._items.with_search(found, asked_for(arguments))
        return found

    def _read(self, tool: Tool, arguments: Arguments, now: datetime, timing: _Timing) -> ToolResult:
        asked = self._asked(tool, arguments, timing)
        with scoped_transaction(self._place.scope):
            _limit_statements()
            self._keep_what_still_holds()
            if asked is not None:
                return _SEARCHES[tool.name](self._place, arguments, asked, now)
            return self._found(tool, arguments, now)

    def _keep_what_still_holds(self) -> None:
        """Give up what was taken away since the run began; a run never gains anything midway."""
        scope = self._place.scope
        if is_revoked(scope=scope):
            raise ToolRefusedError("The key of this run was revoked.")
        if not scope.team_ids:
            return
        held = set(with_teams(scope).team_ids)
        left = replace(scope, team_ids=tuple(team for team in scope.team_ids if team in held))
        narrow_open_scope(left)
        self._place = replace(self._place, scope=left)

    def _asked(self, tool: Tool, arguments: Arguments, timing: _Timing) -> QuestionVector | None:
        """Return the query of a searching tool as the model puts it; before a transaction opens."""
        if tool.name not in _SEARCHES:
            return None
        scope, text = self._place.scope, asked_for(arguments)
        asked = embed_question(scope=scope, text=text, agent_id=self.agent_id)
        timing.end("embed_ms")
        return asked

    def _found(self, tool: Tool, arguments: Arguments, now: datetime) -> ToolResult:
        if tool.name == "view_message":
            on_hand = OnHand(results=self._results, files=(*self.written, *self._workspace))
            return view(self._place, arguments, on_hand, now=now)
        if tool.name == "memory_grep":
            return grep(self._place, arguments, now=now)
        return timeline(self._place, arguments)

    def _outcome(
        self, call: ToolCall, result: ToolResult, *, is_error: bool, now: datetime, timing: _Timing
    ) -> ToolOutcome:
        """Make a result ready to be stored and shown."""
        reference_id = new_id("msg")
        content = strip_secrets(mended(result.text)).text
        shown = self._shown(content, reference_id)
        name = call.name if call.name in self._tools else "unknown tool"
        summary = _one_line(f"{name}: {result.summary}")
        timing.end("shape_ms")
        return ToolOutcome(
            call=call,
            reference_id=reference_id,
            content=content,
            shown=shown,
            summary=summary,
            is_error=is_error,
            started_at=now,
            ms=round(sum(timing.stages.values()), 3),
            facts=self._facts(name, call, result, timing, estimate(shown)),
        )

    def _shown(self, content: str, reference_id: str) -> str:
        most = self._place.most_tokens
        cleaned = sanitize(content).text
        if estimate(cleaned) <= most:
            return cleaned
        return shorten_result(
            text=cleaned, reference_id=reference_id, max_tokens=most, language=self._language
        ).text

    def _facts(
        self, name: str, call: ToolCall, result: ToolResult, timing: _Timing, tokens: int
    ) -> dict[str, Any]:
        """Return what the trace may know: figures, and a hash in place of what was asked."""
        asked = call.arguments.encode("utf-8", "surrogatepass")
        return {
            "tool": name,
            "query_sha256": hashlib.sha256(asked).hexdigest(),
            "stages": dict(timing.stages),
            "candidates": result.candidates,
            "kept": result.kept,
            "dropped": max(result.candidates - result.kept, 0),
            "top_score": result.top_score,
            "tokens": tokens,
            **_searched(result),
        }


def _searched(result: ToolResult) -> dict[str, Any]:
    if result.retrieval is None:
        return {}
    searched = result.retrieval.as_json()
    return {"degraded": searched["degraded"], "retrieval": searched}


def _one_line(text: str) -> str:
    """Return a text cleaned, on one line, in at most 200 characters."""
    line = " ".join(sanitize(strip_secrets(mended(text)).text).text.split())
    return line if len(line) <= _MOST_SUMMARY else f"{line[: _MOST_SUMMARY - 1]}…"


def _limit_statements() -> None:
    """Let no statement of this transaction hold a run up for long."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_catalog.set_config('statement_timeout', %s, true)",
            [f"{MOST_STATEMENT_MS}ms"],
        )


def _is_database_lost() -> bool:
    """Say whether the connection has gone, and not only the statement failed."""
    raw = connections[DEFAULT_DB_ALIAS].connection
    return raw is None or bool(raw.closed)
