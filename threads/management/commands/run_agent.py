"""`manage.py run_agent --agent ID --user U [--thread T] "text"`."""

from __future__ import annotations

import sys
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
from threads.events import Completed, LastEvent
from threads.models import Agent, Run
from threads.prompt_input import RunRequest
from threads.runs import read_run


class Command(CredenceCommand):
    """Asks an agent one question, as its operator."""

    help = "Run one question through an agent and print the answer."

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
        prepared = pipeline.prepare(
            principal=_operator(scope),
            agent_id=options["agent"],
            request=request,
            now=timezone.now(),
        )

        async def drive() -> LastEvent:
            return await RunDriver(prepared).start().outcome()

        last = registry.run(drive())
        if not isinstance(last, Completed):
            raise CommandError(f"The run {prepared.run_id} ended without an answer: {last}")
        run = _stored(prepared.scope, prepared.run_id)
        shown = {"run_id": run.pk, "thread_id": run.thread_id, "output": run.output}
        self.show(options, shown | {"usage": f"{run.input_tokens} + {run.output_tokens} tokens"})


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
