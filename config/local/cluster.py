"""Making a database cluster and writing its configuration files."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Final

from config.local.errors import (
    PostgresForeignError,
    PostgresStartError,
    PostgresVersionError,
)
from config.local.placement import Placement

SUPERUSER: Final = "postgres"
_OUR_CONFIG: Final = "credence.conf"
_FIRST_WITH_BUILTIN_LOCALE: Final = 17

_SETTINGS: Final[Mapping[str, str]] = {
    "max_connections": "60",
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "password_encryption": "scram-sha-256",
    # What people wrote must not reach the log: no statements, no "failing row contains".
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_line_prefix": "%m [%p] ",
}
_FAST_AND_LOOSE: Final[Mapping[str, str]] = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
}


def ensure_cluster(*, placement: Placement, version: int, is_durable: bool) -> None:
    """Make the cluster unless it is there; a half-made one of an interrupted run is thrown away.

    Raises:
        PostgresVersionError: another major version made it.
        PostgresForeignError: something else lies there, or another program's cluster.
    """
    data_dir = placement.data_dir
    marker = data_dir / "PG_VERSION"
    if marker.exists():
        found = marker.read_text(encoding="ascii").strip()
        if found != str(version):
            raise PostgresVersionError(
                f"{data_dir} was made by PostgreSQL {found}, not {version}; "
                f"start version {found} on it, or dump and load it into a new folder"
            )
        if not (data_dir / _OUR_CONFIG).exists():
            raise PostgresForeignError(f"{data_dir} is a database that Credence did not make")
        return
    if data_dir.exists() and any(data_dir.iterdir()):
        raise PostgresForeignError(f"{data_dir} is neither empty nor a database")
    _make(placement=placement, version=version, is_durable=is_durable)


def write_configuration(
    *,
    placement: Placement,
    port: int,
    has_tcp: bool,
    is_durable: bool,
    settings: Mapping[str, str],
) -> None:
    """Write credence.conf and pg_hba.conf anew; called before each start.

    The socket trusts whoever can enter its folder (mode 0700); an address wants SCRAM.
    """
    chosen = dict(_SETTINGS)
    if not is_durable:
        chosen |= _FAST_AND_LOOSE
    chosen |= settings
    chosen |= {
        "port": str(port),
        "listen_addresses": "127.0.0.1" if has_tcp else "",
        "unix_socket_directories": f'"{placement.socket_dir}"',
        "unix_socket_permissions": "0700",
    }
    lines = [f"{name} = {_quoted(value)}" for name, value in chosen.items()]
    _write(placement, _OUR_CONFIG, lines)
    access = ["local all all trust"]
    if has_tcp:
        access.append("host all all 127.0.0.1/32 scram-sha-256")
    _write(placement, "pg_hba.conf", access)


def _make(*, placement: Placement, version: int, is_durable: bool) -> None:
    """Run initdb in a folder beside the goal, then rename: the goal is whole or absent."""
    half = placement.data_dir.with_name(f"{placement.data_dir.name}-half")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(mode=0o700)
    placement.user.give(half)
    made = placement.user.run(
        [
            placement.bin_dir / "initdb",
            "-D",
            half,
            *_initdb_options(version, is_durable),
        ]
    )
    if made.returncode != 0:
        raise PostgresStartError(f"initdb failed: {made.stderr.strip()[-2000:]}")
    with (half / "postgresql.conf").open("a", encoding="utf-8") as configuration:
        configuration.write(f"\ninclude = '{_OUR_CONFIG}'\n")
    placement.user.write(half / _OUR_CONFIG, "")
    half.rename(placement.data_dir)


def _initdb_options(version: int, is_durable: bool) -> list[str]:  # noqa: FBT001 - private
    options = ["-U", SUPERUSER, "--encoding=UTF8", "--auth=trust", "--no-instructions"]
    if version >= _FIRST_WITH_BUILTIN_LOCALE:
        options += [
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
        ]
    else:
        options.append("--locale=C.UTF-8")
    if is_durable:
        options.append("--data-checksums")
    else:
        options.append("--no-sync")
    return options


def _write(placement: Placement, name: str, lines: list[str]) -> None:
    placement.user.write(placement.data_dir / name, "\n".join(lines) + "\n")


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
