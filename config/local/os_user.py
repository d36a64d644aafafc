"""Which operating-system user PostgreSQL runs as, and how a command is run as that user.

PostgreSQL refuses to run as root. For anybody else this module changes nothing.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from config.local.errors import PostgresStartError

USER_VARIABLE = "CREDENCE_PG_USER"
_FALLBACK_USER = "nobody"
_COMMAND_TIMEOUT_SECONDS = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class OsUser:
    """A user of this machine; `is_other` says that commands must change over to it."""

    name: str
    uid: int
    gid: int
    is_other: bool

    def run(self, command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
        """Run `command` as this user in a session of its own and capture what it says.

        The session of its own keeps a Ctrl-C in the terminal from the server. The environment is
        built anew: no PG* variable, no locale and no library path of the caller gets through.
        """
        return subprocess.run(
            [str(part) for part in command],
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            cwd="/",
            env=_clean_environment(),
            start_new_session=True,
            umask=0o077,
            timeout=_COMMAND_TIMEOUT_SECONDS,
            user=self.uid if self.is_other else None,
            group=self.gid if self.is_other else None,
            extra_groups=() if self.is_other else None,
        )

    def can_enter(self, folder: Path) -> bool:
        """Tell whether this user can walk into `folder`; asks the kernel, one process."""
        if not self.is_other:
            return os.access(folder, os.X_OK)
        return self.run(["/bin/sh", "-c", 'cd "$1"', "sh", folder]).returncode == 0

    def give(self, path: Path) -> None:
        """Make `path` (a file or folder of our own) belong to this user; links are not followed."""
        if self.is_other:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def write(self, path: Path, text: str) -> None:
        """Write a file of this user's with mode 0600; as root, never through a planted link."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            if self.is_other:
                os.fchown(file.fileno(), self.uid, self.gid)
            file.write(text)


def server_user(*, data_dir: Path, environ: Mapping[str, str] | None = None) -> OsUser:
    """Return the user a server on `data_dir` has to run as.

    Ourselves, unless we are root; then the owner of an existing cluster, else the user named by
    CREDENCE_PG_USER, else `nobody`.

    Raises:
        PostgresStartError: CREDENCE_PG_USER names root or nobody known here.
    """
    uid = os.geteuid()
    if uid != 0:
        return OsUser(name=str(uid), uid=uid, gid=os.getegid(), is_other=False)
    marker = data_dir / "PG_VERSION"
    if marker.exists() and marker.stat().st_uid != 0:
        found = marker.stat()
        return OsUser(name=str(found.st_uid), uid=found.st_uid, gid=found.st_gid, is_other=True)
    name = (os.environ if environ is None else environ).get(USER_VARIABLE) or _FALLBACK_USER
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise PostgresStartError(f"{USER_VARIABLE}={name}: no such user on this machine") from None
    if entry.pw_uid == 0:
        raise PostgresStartError(f"{USER_VARIABLE}={name}: PostgreSQL refuses to run as root")
    return OsUser(name=name, uid=entry.pw_uid, gid=entry.pw_gid, is_other=True)


def _clean_environment() -> dict[str, str]:
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LC_ALL": "C",
        "TZ": "UTC",
        "HOME": "/",
    }
