"""The data folder of a local instance: its secrets, its database server, and how to reach both."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from config.local.postgres import EmbeddedPostgres
from config.local.provision import DatabaseUrls, provision
from memory.providers.crypto import new_key

DATABASE_NAME: Final = "credence"


class StartError(Exception):
    """The instance can not be started; the text says what to do."""


class OwnServerError(StartError):
    """DATABASE_URL is set, but what the other two roles need is not."""


@contextmanager
def served_once(var: Path, *, port: int) -> Iterator[None]:
    """Hold the data folder's lock while it is served; the kernel lets go when we end, however.

    Raises:
        StartError: Somebody else serves this folder.
    """
    with (var / "run.lock").open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            raise StartError(
                f"{var} is already served ({file.read().strip()}); stop that one first, or choose"
                " another folder with CREDENCE_VAR="
            ) from error
        file.truncate(0)
        file.write(f"process {os.getpid()}, port {port}")
        file.flush()
        yield


def write_private_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write a file only its owner may read, whole or not at all."""
    fresh = path.with_name(path.name + ".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(data, file, indent=2, ensure_ascii=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def ensure_secrets(var: Path) -> dict[str, Any]:
    """Return the instance's secrets, made on first use; they never change by themselves."""
    path = var / "secrets.json"
    if path.is_file():
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    made = {
        "secret_key": secrets.token_urlsafe(50),
        "peppers": {"1": secrets.token_urlsafe(40)},
        "encryption_keys": [new_key()],
        "admin_password": secrets.token_urlsafe(12),
    }
    write_private_json(path, made)
    return made


def embedded_server(var: Path) -> EmbeddedPostgres:
    """Return the instance's own server, not yet started."""
    return EmbeddedPostgres(data_dir=var / "postgres")


def start_database(var: Path) -> tuple[EmbeddedPostgres | None, DatabaseUrls]:
    """Start the embedded server, or take the one DATABASE_URL names; note how to reach it.

    Raises:
        OwnServerError: DATABASE_URL is set without DATABASE_OWNER_URL or DATABASE_MAINT_URL.
    """
    own = os.environ.get("DATABASE_URL")
    if own:
        urls = _own_urls(own)
        write_private_json(var / "instance.json", asdict(urls))
        return None, urls
    server = embedded_server(var)
    urls = provision(admin_url=server.start().admin_url(), dbname=DATABASE_NAME)
    write_private_json(var / "instance.json", asdict(urls))
    return server, urls


def _own_urls(app: str) -> DatabaseUrls:
    others = {
        name: os.environ.get(name, "") for name in ("DATABASE_OWNER_URL", "DATABASE_MAINT_URL")
    }
    missing = sorted(name for name, value in others.items() if not value)
    if missing:
        raise OwnServerError(
            f"DATABASE_URL is set, so {missing[0]} must be too: the roles of app, owner and maint"
            " are different ones (config/local/roles.sql makes them)."
        )
    return DatabaseUrls(
        app=app, owner=others["DATABASE_OWNER_URL"], maint=others["DATABASE_MAINT_URL"]
    )
