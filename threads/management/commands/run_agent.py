"""`manage.py run_agent --agent ID --user U [--thread T] "text"`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from governance.access import Principal
from governance.management.base import CredenceCommand
from governance.permissions import Permission
from memory.providers import registry
from memory.rls import maintenance_transaction, scoped_transaction
from memory.scope import Scope
from threads import pipeline
from threads.driver import RunDriver
from threads.events import (
    Cancelled,
    Completed,
    ContextReady,
    Failed,
    LastEvent,
    RunEvent,
    ToolCalled,
    ToolReturned,
)
from threads.models import Agent, Run
from threads.request import RunRequest
from threads.runs import read_run


class Command(CredenceCommand):
    """Asks an agent one question, as its operator."""

    help = "Run one question through an agent and print what its tools did, and the answer."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the agent, the person, the thread and the question."""
        super().add_arguments(parser)
        parser.add_argument("--agent", required=True, metavar="ID")
        parser.add_argument("--user", required=True, metavar="USER_ID")
        parser.add_argument("--thread", metavar="ID")
        parser.add_argument("text", help='the question; "-" reads it from standard input')

    def handle(self, *args: Any, **options: Any) -> None:
        """Run it."""
        scope = _scope_of(options["agent"])
        text = sys.stdin.read() if options["text"] == "-" else options["text"]
        request = RunRequest(input=text, user_id=options["user"], thread_id=options["thread"])
        try:
            prepared = pipeline.prepare(
                principal=_operator(scope),
                agent_id=options["agent"],
                request=request,
                now=timezone.now(),
            )
        except pipeline.ContextOverBudgetError as error:
            raise CommandError(f"{error.code}: {error.detail} {_account(error.context)}") from error
        events = registry.run(_drive(prepared))
        if not options["json"]:
            for event in events:
                self._tell(event)
        last = events[-1]
        if not isinstance(last, Completed):
            raise CommandError(f"The run {prepared.run_id} {_why(last)}")
        run = _stored(prepared.scope, prepared.run_id)
        shown: dict[str, Any] = {"run_id": run.pk, "thread_id": run.thread_id, "output": run.output}
        if options["json"]:
            shown["tools"] = _tools(events)
        self.show(options, shown | {"usage": f"{run.input_tokens} + {run.output_tokens} tokens"})

    def _tell(self, event: RunEvent) -> None:
        """Print a call, its result, or how the prompt came out where it is not simply whole."""
        if isinstance(event, ContextReady) and event.context["decision"] != "pass":
            self.stdout.write(f"context: {_account(event.context)}")
        elif isinstance(event, ToolCalled):
            self.stdout.write(f"tool: {event.name} {event.arguments}")
        elif isinstance(event, ToolReturned):
            self.stdout.write(f"  -> {event.summary} [{event.reference_id}]")


async def _drive(prepared: pipeline.PreparedRun) -> list[RunEvent]:
    driver = RunDriver(prepared).start()
    return [event async for event in driver.events()]


def _tools(events: list[RunEvent]) -> list[dict[str, str]]:
    """Return each call with what came of it."""
    results = {event.id: event for event in events if isinstance(event, ToolReturned)}
    calls = [event for event in events if isinstance(event, ToolCalled)]
    return [
        {
            "name": call.name,
            "arguments": call.arguments,
            "summary": results[call.id].summary,
            "reference_id": results[call.id].reference_id,
        }
        for call in calls
        if call.id in results
    ]


def _account(context: Mapping[str, Any]) -> str:
    """Say in a line what a prompt wanted, what it may cost, and which sections want how much."""
    wanted = ", ".join(f"{row['name']} {row['wanted']}" for row in context["sections"])
    return (
        f"{context['decision']}, {context['current_tokens']} tokens wanted,"
        f" {context['target_budget']} allowed ({wanted or 'the system prompt and tools alone'})"
    )


def _why(last: LastEvent | RunEvent) -> str:
    if isinstance(last, Cancelled):
        return "was cancelled."
    if not isinstance(last, Failed):
        return "ended without an answer."
    account = f" {_account(last.context)}" if last.context else ""
    return f"failed: {last.code}: {last.detail}{account}"


def _scope_of(agent_id: str) -> Scope:
    """Return the scope of the agent's tenant: read as role maint, since a command has no key."""
    with maintenance_transaction() as alias:
        rows = Agent.objects.unscoped(reason="a command names its agent by id").using(alias)
        tenant_id = rows.filter(pk=agent_id).values_list("tenant_id", flat=True).first()
    if tenant_id is None:
        raise CommandError(f"There is no agent {agent_id!r}.")
    return Scope(tenant_ids=(tenant_id,), principal_id="command")


def _operator(scope: Scope) -> Principal:
    """Return the operator at the command line, who may run every agent of the tenant."""
    return Principal(
        id=scope.principal_id,
        account_id=0,
        tenant_id=scope.tenant_id,
        key_scopes=frozenset({"run"}),
        permissions=frozenset({Permission.USE, Permission.RUN_AGENT, Permission.ACT_FOR}),
    )


def _stored(scope: Scope, run_id: str) -> Run:
    with scoped_transaction(scope):
        return read_run(scope=scope, run_id=run_id)
