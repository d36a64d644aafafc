"""`make run`: a whole Credence on this machine, from an empty folder to a served demo.

Environment: PORT (8000), HOST (127.0.0.1), CREDENCE_VAR (./var), WEB_PROCESSES (1), and for a
server of one's own DATABASE_URL, DATABASE_OWNER_URL and DATABASE_MAINT_URL.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Any, Final

import django
from django.core.management import call_command
from django.db import DatabaseError, connections
from django.utils import timezone

from config.local.errors import LocalPostgresError
from config.local.instance import (
    StartError,
    ensure_secrets,
    served_once,
    start_database,
    write_private_json,
)
from config.local.postgres import EmbeddedPostgres
from config.local.processes import Child, keep_alive
from config.settings.env import var_folder

READY_SECONDS: Final = 90.0
_LOOK_SECONDS: Final = 1.0
_ASK_SECONDS: Final = 60.0


def say(text: str) -> None:
    """Tell the person at the terminal."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Start everything, print what to open, and stop everything on Ctrl-C or SIGTERM."""
    should_stop = Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        should_stop.set()

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    var = var_folder()
    (var / "static").mkdir(parents=True, exist_ok=True)
    try:
        host, port = os.environ.get("HOST", "127.0.0.1"), _port()
        with served_once(var, port=port):
            _refuse_taken_port(host, port)
            return _serve(var, host, port, should_stop)
    except (LocalPostgresError, StartError) as error:
        say(f"Credence did not start: {error}")
        return 1


def _port() -> int:
    raw = os.environ.get("PORT", "8000")
    if not (raw.isascii() and raw.isdigit() and 0 < int(raw) < 65536):
        raise StartError(f"PORT is a number from 1 to 65535, not {raw!r}")
    return int(raw)


def _refuse_taken_port(host: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise StartError(
                f"port {port} on {host} is in use ({error.strerror}); choose another with PORT="
            ) from error


def _serve(var: Path, host: str, port: int, should_stop: Event) -> int:
    secrets = ensure_secrets(var)
    say("Starting the database …")
    server, _ = start_database(var)
    children: list[Child] = []
    try:
        os.environ["CREDENCE_VAR"] = str(var)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.local")
        django.setup()
        say("Migrating …")
        call_command("migrate", database="owner", verbosity=0)
        if server is not None:
            _end_lost_runs()
        _wait_for_erasures(should_stop)
        seeded = _seed(var, str(secrets["admin_password"]))
        connections.close_all()
        children += _children(host, port)
        for child in children:
            child.start()
        base_url = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"  # noqa: S104
        _wait_until_ready(base_url, children, should_stop)
        if not should_stop.is_set():
            _welcome(var, base_url, seeded, str(secrets["admin_password"]))
        _watch(server, children, should_stop)
    finally:
        say("Stopping …")
        for child in children:
            child.ask_to_stop()
        for child in children:
            child.stop()
        if server is not None:
            if children:
                _end_lost_runs()
            server.stop()
    return 0


def _end_lost_runs() -> None:
    """End the runs that a stopped or killed web process left: on our own server there is no other."""
    # Models can be imported only once Django is set up, which needs the database's address.
    from threads.sweep import end_every_unfinished_run  # noqa: PLC0415

    try:
        ended = end_every_unfinished_run(now=timezone.now())
    except DatabaseError:
        return  # the database went first; the next start does it
    finally:
        connections.close_all()
    if ended:
        say(f"{ended} unfinished runs ended as interrupted")


def _wait_for_erasures(should_stop: Event) -> None:
    """Start nothing on a restored database before the erasures since its backup are done again."""
    from governance.erasure.restored import missing_erasures  # noqa: PLC0415

    told = 0
    while not should_stop.is_set() and (missing := len(missing_erasures(is_whole=True))):
        if told != missing:
            say(
                "This database is older than the ledger of erasures: it was restored from a backup.\n"
                f"{missing} erasures and holds since then have to be done again before it is served."
                " In another terminal:\n"
                "  manage.py reapply_erasures     (with CREDENCE_VAR as here)\n"
                "Waiting for it …"
            )
            told = missing
        connections.close_all()
        should_stop.wait(_LOOK_SECONDS)
    connections.close_all()


def _seed(var: Path, admin_password: str) -> Sequence[Any]:
    from config.local.seed import seed  # noqa: PLC0415

    return seed(var=var, admin_password=admin_password, say=say)


def _children(host: str, port: int) -> list[Child]:
    environment = {"CREDENCE_LOG_LEVEL": "WARNING", **os.environ}
    web = ["granian", "--interface", "asginl", "--host", host, "--port", str(port)]
    web += ["--workers", os.environ.get("WEB_PROCESSES", "1"), "--http", "1", "--no-ws"]
    web += ["--loop", "asyncio", "--respawn-failed-workers", "--backpressure", "4096"]
    web += [
        "--http1-buffer-size",
        "65536",
        "--http1-header-read-timeout",
        "10000",
        "--log-level",
        "warning",
    ]
    web += ["--workers-kill-timeout", "5", "config.asgi:application"]
    return [
        Child("web", web, environment | {"CREDENCE_PROCESS": "web"}),
        Child("worker", ["django", "worker"], environment | {"CREDENCE_PROCESS": "worker"}),
    ]


def _wait_until_ready(base_url: str, children: Sequence[Child], should_stop: Event) -> None:
    say("Waiting for web and worker …")
    until = time.monotonic() + READY_SECONDS
    while not should_stop.wait(0.2):
        if _is_ready(base_url):
            return
        keep_alive(children, say)
        if time.monotonic() > until:
            raise StartError(f"{base_url}/readyz is not ready after {READY_SECONDS:.0f} s")


def _is_ready(base_url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{base_url}/readyz", timeout=5) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _welcome(var: Path, base_url: str, seeded: Sequence[Any], admin_password: str) -> None:
    for one in seeded:
        if one.is_new:
            answer = _ask(base_url, one)
            say(f"\n{one.demo.slug} asked: {one.demo.question}\n  {answer}")
    demo = {
        "base_url": base_url,
        "admin": {"url": f"{base_url}/admin/", "username": "admin", "password": admin_password},
        "tenants": [one.as_json() for one in seeded],
    }
    write_private_json(var / "demo.json", demo)
    first = seeded[0]
    body = json.dumps(
        {"input": first.demo.question, "user_id": first.demo.user_id, "thread_id": first.thread_id},
        ensure_ascii=False,
    )
    say(
        f"\nCredence is ready.\n"
        f"  API     {base_url}/v1/docs\n"
        f"  Chat    {base_url}/chat/\n"
        f"  Admin   {base_url}/admin/  (admin / {admin_password})\n"
        f"  Keys    {var / 'demo.json'}\n\nTry it:\n"
        f"  curl -s {base_url}/v1/agents/{first.agent_id}/run \\\n"
        f"    -H 'Authorization: Bearer {first.api_key}' \\\n"
        f"    -H 'Content-Type: application/json' \\\n    -d '{body}'\n\nCtrl-C stops it."
    )


def _ask(base_url: str, one: Any) -> str:
    """Run a demo tenant's question in its newest thread, over HTTP as a client would."""
    body = {"input": one.demo.question, "user_id": one.demo.user_id, "thread_id": one.thread_id}
    request = urllib.request.Request(  # noqa: S310 - our own server
        f"{base_url}/v1/agents/{one.agent_id}/run",
        data=json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {one.api_key}",
            "Content-Type": "application/json",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=_ASK_SECONDS) as answer:  # noqa: S310
            return str(json.load(answer)["output"])
    except (urllib.error.URLError, OSError, ValueError, KeyError) as error:
        return f"(no answer: {error})"


def _watch(server: EmbeddedPostgres | None, children: Sequence[Child], should_stop: Event) -> None:
    """Keep database, web and worker running until told to stop."""
    while not should_stop.wait(_LOOK_SECONDS):
        if server is not None and not server.is_running():
            say("the database ended; starting it again")
            try:
                server.start()
            except LocalPostgresError as error:
                say(f"it did not start: {error}")
        keep_alive(children, say)


if __name__ == "__main__":
    sys.exit(main())
