"""A whole instance for one evaluation, with a tenant of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.evaluation.over_http import HttpSubject
from tests.evaluation.subject import EvaluationError
from tests.instance import Instance

_SLUG: Final = "evaluation"
_WINDOW_TOKENS: Final = 8192


@contextmanager
def throwaway_subject(*, clients: int) -> Iterator[HttpSubject]:
    """Start an instance on a folder of its own, and remove all of it in the end."""
    with Instance() as instance:
        tenant = ("--tenant", _SLUG)
        _manage(instance, "create_tenant", _SLUG)
        scopes = "run,read,write,govern,erase,admin"
        key = _manage(instance, "create_api_key", *tenant, "--scopes", scopes)
        offline = ("--name", "offline", "--kind", "offline", "--locality", "local")
        _manage(instance, "create_provider", *tenant, *offline)
        agent = _manage(
            instance,
            *("create_agent", *tenant, "--name", "evaluation", "--provider", "offline"),
            *("--model", "offline", "--context-window", str(_WINDOW_TOKENS)),
        )
        yield HttpSubject(
            url=instance.base_url,
            key=key["key"],
            agent_id=agent["id"],
            may_run=True,
            clients=clients,
        )


def _manage(instance: Instance, *arguments: str) -> Any:
    done = instance.manage(*arguments, "--json")
    if done.returncode:
        raise EvaluationError(f"manage.py {arguments[0]} failed: {done.stderr[-1000:]}")
    return json.loads(done.stdout)
