"""The model calls of one run: model, tools, model ..., until an answer comes without a tool call.

Each call to the model is checked against the in-run window first; each tool is a short transaction
of its own, one after the other; nothing is held while the model talks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from time import perf_counter
from typing import Any, Final

from django.utils import timezone

from governance.secrets import strip_secrets
from memory.conf import run_lease_seconds
from memory.db_threads import in_database_thread
from memory.errors import CredenceError
from memory.language import resolve
from memory.providers.base import (
    ChatMessage,
    ChatProvider,
    Finished,
    TextDelta,
    ToolCall,
    ToolCallMade,
    ToolSpec,
    Usage,
)
from memory.providers.errors import ProviderError
from memory.providers.registry import chat_provider
from memory.rls import scoped_transaction
from memory.tokens import estimate
from threads import runs
from threads.chat import price
from threads.committing import committed
from threads.counting import Observation
from threads.disclosing import note_tools
from threads.events import Delta, RunEvent, ToolCalled, ToolReturned
from threads.pipeline import ContextOverBudgetError, PreparedRun
from threads.run_prompt import RunPrompt, Window
from threads.runs import Answered, Spent
from threads.tool_rounds import ToolRound, message_json, tidy_calls
from threads.tools.box import ToolBox
from threads.tools.records import ToolOutcome

_HOLDS_PER_LEASE: Final = 3
_TOO_MUCH: Final = (
    "What this run's tools were called with and returned does not fit the agent's window; ask for"
    " less at once, or give the agent a larger one."
)
_TOO_MANY_ROUNDS: Final = (
    "The model kept calling tools beyond the agent's tool_rounds limit and gave no answer."
)


class EndedElsewhereError(CredenceError):
    """The run was ended by somebody else before its answer came."""

    code = "run_finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """One answer of the model: text, or calls with perhaps some text before them."""

    text: str
    calls: tuple[ToolCall, ...]
    model: str


class Rounds:
    """The way of one run to its answer.

    `steps` says what happened, and `spent` what that cost, also where it failed.
    """

    def __init__(
        self,
        prepared: PreparedRun,
        *,
        stored: Sequence[ChatMessage],
        tell: Callable[[RunEvent], None],
    ) -> None:
        """Take an accepted run, the messages its trace holds, and who hears of its events."""
        self.steps: list[Mapping[str, Any]] = list(prepared.steps)
        self.spent = Spent()
        self._prepared = prepared
        self._stored = tuple(stored)
        self._tell = tell
        self._specs = prepared.tools.specs() if prepared.tools else ()
        self._prompt = RunPrompt(
            base=prepared.prompt,
            language=resolve(prepared.agent.language, prepared.run.input),
        )
        self._done: list[ToolRound] = []
        self._call_ids: set[str] = set()
        self._observations: list[Observation] = []
        self._held_at = perf_counter()

    async def answer(self) -> Answered:
        """Call the model, and its tools, until it answers.

        Raises:
            ContextOverBudgetError: What the tools returned does not fit, compressed or not.
            EndedElsewhereError: The run was ended meanwhile.
            ProviderError: A call failed, or was answered by what can not be used.
        """
        box, specs = self._prepared.tools, self._specs
        most_rounds = self._prepared.policy.count("tool_rounds")
        provider = chat_provider(self._prepared.config)
        for number in count():
            tools = specs if number < most_rounds else ()
            window = await self._window(tools, is_first=not number)
            said = await self._ask(provider, window, tools)
            if box is None or not said.calls:
                return self._answered(said.text, said.model, window)
            await self._use(box, said)
        raise AssertionError  # pragma: no cover - `count` has no end

    async def _window(self, tools: Sequence[ToolSpec], *, is_first: bool) -> Window:
        """Return what may be sent now; before any call but the first the run is held for it."""
        if is_first:
            return self._prompt.fit(tools=tools, now=timezone.now())
        window = await committed(lambda: self._fit_and_hold(tools))
        self._held_at = perf_counter()
        self.steps += window.steps
        if not window.is_within:
            changed = {"decision": "reject", "current_tokens": window.tokens}
            context = {**self._prepared.context, **changed}
            raise ContextOverBudgetError(
                run_id=self._prepared.run_id, context=context, detail=_TOO_MUCH
            )
        return window

    def _fit_and_hold(self, tools: Sequence[ToolSpec]) -> Window:
        """Fit the prompt, whose past may ask for ids, and hold the run, in one transaction.

        What the newest round is about to show is written down with it.
        """
        prepared, now = self._prepared, timezone.now()
        with scoped_transaction(prepared.scope):
            window = self._prompt.fit(tools=tools, now=now)
            self._hold()
            if window.is_within:
                newest = self._done[-1].outcomes
                note_tools(
                    scope=prepared.scope,
                    run=prepared.run,
                    agent=prepared.agent,
                    outcomes=newest,
                    now=now,
                )
        return window

    def _hold(self) -> None:
        """Renew the run's lease: rounds may together take longer than one.

        Raises:
            EndedElsewhereError: The run has ended.
        """
        prepared = self._prepared
        if not runs.renew_lease(scope=prepared.scope, run_id=prepared.run_id):
            raise EndedElsewhereError

    def _hold_now(self) -> None:
        with scoped_transaction(self._prepared.scope):
            self._hold()

    async def _ask(
        self, provider: ChatProvider, window: Window, tools: Sequence[ToolSpec]
    ) -> _Said:
        """Make one call and book it, also where it fails."""
        call = _Call(started_at=timezone.now(), began=perf_counter())
        self.spent = replace(self.spent, model=self._model_of(None))
        try:
            await self._listen(provider, window, tools, call)
            finished = self._usable(call, is_offered=bool(tools))
        except BaseException as error:
            self._book(call, window, error)
            raise
        self._book(call, window)
        if finished.usage is not None:
            self._observe(window, tools, finished.usage)
        calls = tuple(call.calls) if tools else ()  # beside text, those not offered are let go
        said = _Said(text=call.text, calls=calls, model=self._model_of(finished))
        # Looking for secrets takes time, and only what goes on needs it here.
        return await in_database_thread(lambda: self._tidied(said)) if said.calls else said

    def _usable(self, call: _Call, *, is_offered: bool) -> Finished:
        """Return the end of a call whose answer can be used; after the last round, for its text.

        Raises:
            ProviderError: It is empty or unfinished, or does nothing but call what was not offered.
        """
        has_text = bool(call.text.strip())
        if call.calls and not is_offered:
            if not self._specs:
                raise ProviderError("The provider called a tool although none was offered.")
            if not has_text:
                raise ProviderError(_TOO_MANY_ROUNDS)
        if call.finished is None or not (call.calls or has_text):
            raise ProviderError("The provider ended without an answer.")
        return call.finished

    def _tidied(self, said: _Said) -> _Said:
        """Return an answer with calls as it may be sent back and stored."""
        text = strip_secrets(said.text).text
        return replace(said, text=text, calls=tidy_calls(said.calls, taken=self._call_ids))

    async def _listen(
        self, provider: ChatProvider, window: Window, tools: Sequence[ToolSpec], call: _Call
    ) -> None:
        request = replace(self._prepared.request, messages=window.messages, tools=tuple(tools))
        async with aclosing(provider.stream(request=request)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    call.pieces.append(event.text)
                    self._tell(Delta(text=event.text))
                elif isinstance(event, ToolCallMade):
                    call.calls.append(event.call)
                else:
                    call.finished = event

    async def _use(self, box: ToolBox, said: _Said) -> None:
        """Run the calls of an answer, one after the other, each to exactly one result."""
        outcomes = [await self._run(box, call) for call in said.calls]
        done = ToolRound(text=said.text, outcomes=tuple(outcomes))
        self._done.append(done)
        self._prompt.add(done)

    async def _run(self, box: ToolBox, call: ToolCall) -> ToolOutcome:
        if perf_counter() - self._held_at > run_lease_seconds() / _HOLDS_PER_LEASE:
            await committed(self._hold_now)  # an answer may call very many tools
            self._held_at = perf_counter()
        self._tell(ToolCalled(id=call.id, name=call.name, arguments=call.arguments))
        outcome = await committed(lambda: box.call(call=call, now=timezone.now()))
        self.steps.append(
            {
                "kind": "tool",
                "started_at": outcome.started_at.isoformat(),
                "ms": outcome.ms,
                "data": outcome.trace_data(),
            }
        )
        self._tell(
            ToolReturned(id=call.id, reference_id=outcome.reference_id, summary=outcome.summary)
        )
        return outcome

    def _book(self, call: _Call, window: Window, error: BaseException | None = None) -> None:
        """Book a call: as it was counted, else as estimated if it ended, else as nothing."""
        finished, reported = call.finished, call.reported(error)
        figures: dict[str, Any] = {}
        if reported is not None or finished is not None:
            usage = reported or self._estimated(call, window)
            self._spend(usage, model=self._model_of(finished), now=call.started_at)
            figures = {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "is_usage_reported": reported is not None,
            }
        if finished is not None:
            figures |= {"finish_reason": finished.reason, "tool_calls": len(call.calls)}
        if error is not None:
            figures["error_code"] = _code_of(error)
        self.steps.append(self._model_step(call, figures, model=self._model_of(finished)))

    def _estimated(self, call: _Call, window: Window) -> Usage:
        made = sum(estimate(f"{one.name}{one.arguments}") for one in call.calls)
        return Usage(
            input_tokens=window.tokens or int(self._prepared.context["prompt_tokens"]),
            output_tokens=estimate(call.text) + made,
        )

    def _spend(self, usage: Usage, *, model: str, now: datetime) -> None:
        spent = self.spent
        cost = price(provider=self._prepared.agent.provider, model=model, usage=usage, now=now)
        self.spent = Spent(
            model=model,
            input_tokens=spent.input_tokens + usage.input_tokens,
            output_tokens=spent.output_tokens + usage.output_tokens,
            cost_usd=spent.cost_usd + cost.usd,
            is_cost_known=spent.is_cost_known and cost.is_known,
        )

    def _observe(self, window: Window, tools: Sequence[ToolSpec], usage: Usage) -> None:
        """Keep what the provider's count teaches about how its model counts."""
        seen = self._prepared.prompt.given.counter.observed(
            window.messages, reported=usage.input_tokens, tools=tools
        )
        if seen is not None:
            self._observations.append(seen)

    def _model_of(self, finished: Finished | None) -> str:
        return (finished.model if finished else "") or self._prepared.request.model

    def _model_step(self, call: _Call, figures: dict[str, Any], *, model: str) -> dict[str, Any]:
        known = {"model": model, "provider_id": self._prepared.config.id}
        return {
            "kind": "model",
            "started_at": call.started_at.isoformat(),
            "ms": round((perf_counter() - call.began) * 1000, 2),
            "data": known | figures,
        }

    def _answered(self, text: str, model: str, window: Window) -> Answered:
        box, spent = self._prepared.tools, self.spent
        is_as_stored = window.messages == self._stored
        return Answered(
            text=text,
            model=model,
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
            cost_usd=spent.cost_usd,
            is_cost_known=spent.is_cost_known,
            steps=tuple(self.steps),
            rounds=tuple(self._done),
            artifacts=box.written if box else (),
            items=box.upserted if box else (),
            observations=tuple(self._observations),
            prompt=None if is_as_stored else tuple(map(message_json, window.messages)),
        )


class _Call:
    """One call as it goes on."""

    def __init__(self, *, started_at: datetime, began: float) -> None:
        self.started_at = started_at
        self.began = began
        self.pieces: list[str] = []
        self.calls: list[ToolCall] = []
        self.finished: Finished | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def reported(self, error: BaseException | None) -> Usage | None:
        """Return what the provider counted, also of a call that ended in an error."""
        if self.finished is not None:
            return self.finished.usage
        counted = error.spent_tokens if isinstance(error, ProviderError) else None
        return Usage(input_tokens=counted[0], output_tokens=counted[1]) if counted else None


def _code_of(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    return error.code if isinstance(error, CredenceError) else CredenceError.code
