"""Where the files of one embedded server lie: its data, its socket, its programs.

Everything follows from the data folder the caller names. Two things may push the files elsewhere:
the server's user cannot reach that folder (root's checkout below a closed home), or the path is too
long for a Unix socket (107 bytes).
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config.local.binaries import SYSTEM_ROOT, binaries_for, open_folder
from config.local.errors import PostgresForeignError, PostgresStartError
from config.local.os_user import OsUser, server_user

SOCKET_PORT: Final = 5432
_MAX_SOCKET_PATH_BYTES: Final = 107


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The real places: `data_dir` is free of links, `socket_dir` is 0700 and short."""

    user: OsUser
    bin_dir: Path
    data_dir: Path
    socket_dir: Path


def place(*, data_dir: Path, version: int, port: int, system_root: Path = SYSTEM_ROOT) -> Placement:
    """Find or make the folders for a server on `data_dir`; makes no cluster.

    Raises:
        PostgresStartError: no place is reachable for the server's user.
        PostgresForeignError: a folder exists that belongs to somebody else.
    """
    user = server_user(data_dir=data_dir)
    data_dir.parent.mkdir(parents=True, exist_ok=True)
    real = _real_data_dir(data_dir=data_dir, user=user, system_root=system_root)
    return Placement(
        user=user,
        bin_dir=binaries_for(version=version, user=user, system_root=system_root),
        data_dir=real,
        socket_dir=_socket_dir(data_dir=real, port=port, user=user),
    )


def _real_data_dir(*, data_dir: Path, user: OsUser, system_root: Path) -> Path:
    """Follow the link of an earlier run, or lay the data under `system_root` and leave a link."""
    if data_dir.is_symlink():
        real = data_dir.resolve()
        real.parent.mkdir(parents=True, exist_ok=True)
        return real
    real = data_dir.resolve()
    if user.can_enter(real.parent):
        return real
    if real.exists() and any(real.iterdir()):
        raise PostgresStartError(
            f"user {user.name} cannot reach the database in {data_dir}: open the folders above it, "
            f"or move it elsewhere and leave a symbolic link in its place"
        )
    if real.exists():
        real.rmdir()
    home = _new_home(system_root=system_root, data_dir=real)
    data_dir.symlink_to(home / "data")
    return home / "data"


def _new_home(*, system_root: Path, data_dir: Path) -> Path:
    """Make a folder no earlier checkout at the same path has used: its data is not ours."""
    open_folder(system_root)
    for attempt in range(1000):
        home = system_root / (_digest(data_dir) + (f"-{attempt}" if attempt else ""))
        try:
            home.mkdir()
        except FileExistsError:
            continue
        home.chmod(0o755)
        return home
    raise PostgresStartError(f"{system_root} is full of abandoned databases; remove some")


def _socket_dir(*, data_dir: Path, port: int, user: OsUser) -> Path:
    """Beside the data when that is short enough, else in the system's temp folder."""
    beside = data_dir.with_name(f"{data_dir.name}-run")
    name = f"credence-{user.uid}-{_digest(data_dir)}"
    for folder in (beside, Path(tempfile.gettempdir(), name), Path("/tmp", name)):  # noqa: S108 - owner and mode are checked
        path = os.fsencode(folder / f".s.PGSQL.{port}")
        if len(path) <= _MAX_SOCKET_PATH_BYTES and user.can_enter(folder.parent):
            _claim(folder, user=user)
            return folder
    raise PostgresStartError("no folder has a path short enough for a Unix socket; set TMPDIR")


def _claim(folder: Path, *, user: OsUser) -> None:
    """Make `folder` with mode 0700, or check that it is one: others may have laid a trap there."""
    try:
        folder.mkdir(mode=0o700)
        user.give(folder)
    except FileExistsError:
        pass
    found = folder.lstat()
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == user.uid
    if not is_ours or stat.S_IMODE(found.st_mode) != 0o700:
        raise PostgresForeignError(f"{folder} is not a folder of user {user.name} with mode 0700")


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
