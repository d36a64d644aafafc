"""`manage.py create_agent --tenant SLUG --name N --provider P --model M --context-window T`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from governance.management.base import TenantCommand
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.agents import KNOWN_TOOLS, AgentValues, create_agent
from threads.models import Language, Provider, ThreadStrategy

_TOOLS = ",".join(KNOWN_TOOLS)


class Command(TenantCommand):
    """Makes an agent."""

    help = "Create an agent of a tenant."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take what an agent is made of."""
        super().add_arguments(parser)
        parser.add_argument("--name", required=True)
        parser.add_argument("--provider", required=True, help="name or id of a provider")
        parser.add_argument("--model", required=True)
        parser.add_argument("--context-window", required=True, type=int, help="tokens, from 1024")
        parser.add_argument("--max-output-tokens", type=int)
        parser.add_argument("--language", default=Language.AUTO, choices=Language.values)
        parser.add_argument(
            "--thread-strategy", default=ThreadStrategy.ROLLING, choices=ThreadStrategy.values
        )
        parser.add_argument("--tools", default="", help=f"what it may call, of {_TOOLS}")
        parser.add_argument("--role", help="the persona its memory is bound to; default: default")
        parser.add_argument("--system-prompt-file", type=Path, metavar="F")

    def handle(self, *args: Any, **options: Any) -> None:
        """Create it and print its id."""
        scope = self.scope(options)
        values: AgentValues = {
            "name": options["name"],
            "provider_id": _provider_id(scope, options["provider"]),
            "model": options["model"],
            "context_window": options["context_window"],
            "language": options["language"],
            "thread_strategy": options["thread_strategy"],
            "tools": [word.strip() for word in options["tools"].split(",") if word.strip()],
        }
        if options["role"]:
            values["role"] = options["role"]
        if options["max_output_tokens"]:
            values["max_output_tokens"] = options["max_output_tokens"]
        if options["system_prompt_file"]:
            values["system_prompt"] = _text_of(options["system_prompt_file"])
        agent = create_agent(scope=scope, values=values, now=timezone.now())
        self.show(options, {"id": agent.pk, "name": agent.name})


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} can not be read as UTF-8 text.") from error


def _provider_id(scope: Scope, name: str) -> str:
    with scoped_transaction(scope):
        rows = Provider.objects.in_scope(scope)
        found = rows.filter(pk=name).first() or rows.filter(name=name).first()
    if found is None:
        raise CommandError(f"There is no provider named {name!r}; see create_provider.")
    return str(found.pk)
