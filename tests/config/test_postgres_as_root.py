"""The embedded server when root starts it: it runs as somebody else, also out of closed folders.

For an ordinary user most of this cannot be set up; then the tests prove the ordinary half: no
change of user, no copy, nothing outside the data folder.
"""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from config.local.binaries import SYSTEM_ROOT, binaries_for
from config.local.errors import PostgresStartError
from config.local.lockfile import running_server
from config.local.os_user import USER_VARIABLE, OsUser, server_user
from config.local.postgres import EmbeddedPostgres

ServerMaker = Callable[..., EmbeddedPostgres]
IS_ROOT = os.geteuid() == 0


@pytest.fixture
def closed_folder(open_tmp_path: Path) -> Path:
    """A folder that only we may enter, like a home with mode 0700."""
    folder = open_tmp_path / "closed"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def system_root() -> Iterator[Path]:
    """A stand-in for the system's data folder."""
    folder = Path(tempfile.mkdtemp(prefix="credence-system-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_start_runs_the_server_as_an_unprivileged_user(make_server: ServerMaker) -> None:
    server = make_server()
    server.start()
    real = server._data_dir.resolve()
    running = running_server(real)
    assert running is not None
    owner = Path("/proc", str(running.pid)).stat().st_uid if Path("/proc").exists() else 1
    expected = pwd.getpwnam("nobody").pw_uid if IS_ROOT else os.geteuid()
    assert owner == expected != 0
    assert real.stat().st_uid == expected
    assert real.stat().st_mode & 0o777 == 0o700


def test_start_in_a_closed_folder_changes_no_mode_and_finds_the_data_again(
    make_server: ServerMaker, closed_folder: Path
) -> None:
    server = make_server(folder=closed_folder)
    with psycopg.connect(server.start().admin_url(), autocommit=True) as connection:
        connection.execute("CREATE TABLE t AS SELECT 7 AS n")
    server.stop()
    with psycopg.connect(make_server(folder=closed_folder).start().admin_url()) as connection:
        assert connection.execute("SELECT n FROM t").fetchone() == (7,)
    assert closed_folder.stat().st_mode & 0o777 == 0o700
    assert closed_folder.stat().st_uid == os.geteuid()
    assert (closed_folder / "pg").is_symlink() is IS_ROOT
    assert (SYSTEM_ROOT in (closed_folder / "pg").resolve().parents) is IS_ROOT


def test_start_second_checkout_at_the_same_path_does_not_get_the_first_ones_data(
    make_server: ServerMaker, closed_folder: Path
) -> None:
    first = make_server(folder=closed_folder)
    with psycopg.connect(first.start().admin_url(), autocommit=True) as connection:
        connection.execute("CREATE TABLE of_the_first (n int)")
    first.stop()
    left = (closed_folder / "pg").resolve()
    shutil.rmtree(closed_folder)
    closed_folder.mkdir(mode=0o700)
    with psycopg.connect(make_server(folder=closed_folder).start().admin_url()) as connection:
        assert connection.execute("SELECT to_regclass('of_the_first')").fetchone() == (None,)
    shutil.rmtree(left.parent if IS_ROOT else left, ignore_errors=True)


def test_binaries_the_user_cannot_reach_are_copied_once_and_run(
    monkeypatch: pytest.MonkeyPatch, closed_folder: Path, system_root: Path
) -> None:
    user = server_user(data_dir=closed_folder / "pg")
    shipped = binaries_for(version=18, user=user, system_root=system_root)
    package = shipped.parents[1]
    if IS_ROOT:
        shutil.copytree(package, closed_folder / package.name, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, closed_folder / libraries.name)
        monkeypatch.setattr(
            "config.local.binaries._package_folder", lambda: closed_folder / package.name
        )
    found = binaries_for(version=18, user=user, system_root=system_root)
    assert (system_root in found.parents) is IS_ROOT
    assert user.run([found / "postgres", "--version"]).stdout.startswith("postgres (PostgreSQL) 18")
    assert binaries_for(version=18, user=user, system_root=system_root) == found
    assert [path.name for path in system_root.glob("half-*")] == []
    assert closed_folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("name", "complaint"), [("root", "root"), ("no-such-user", "no such user")]
)
def test_server_user_wrong_variable_is_refused_for_root_only(
    tmp_path: Path, name: str, complaint: str
) -> None:
    environ = {USER_VARIABLE: name}
    if IS_ROOT:
        with pytest.raises(PostgresStartError, match=complaint):
            server_user(data_dir=tmp_path, environ=environ)
    else:
        assert server_user(data_dir=tmp_path, environ=environ).uid == os.geteuid()


def test_server_user_named_by_the_variable_is_taken(tmp_path: Path) -> None:
    other = next(entry for entry in pwd.getpwall() if entry.pw_uid not in (0, 65534))
    user = server_user(data_dir=tmp_path, environ={USER_VARIABLE: other.pw_name})
    assert user.uid == (other.pw_uid if IS_ROOT else os.geteuid())


def test_server_user_existing_cluster_keeps_its_owner(tmp_path: Path) -> None:
    marker = tmp_path / "PG_VERSION"
    marker.write_text("18", encoding="ascii")
    if IS_ROOT:
        os.chown(marker, 12345, 12345)
    assert server_user(data_dir=tmp_path).uid == (12345 if IS_ROOT else os.geteuid())


def test_write_through_a_planted_link_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine", encoding="utf-8")
    (tmp_path / "credence.conf").symlink_to(target)
    user = OsUser(name="me", uid=os.geteuid(), gid=os.getegid(), is_other=False)
    with pytest.raises(OSError, match=r"symbolic link|symlink"):
        user.write(tmp_path / "credence.conf", "theirs")
    assert target.read_text(encoding="utf-8") == "mine"
