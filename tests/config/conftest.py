"""Real servers for the launcher's tests: each in a folder of its own, stopped at the end."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from config.local.binaries import SYSTEM_ROOT
from config.local.postgres import EmbeddedPostgres

ServerMaker = Callable[..., EmbeddedPostgres]


@pytest.fixture
def open_tmp_path() -> Iterator[Path]:
    """A folder that any user may enter; pytest's own lies below a closed one."""
    folder = Path(tempfile.mkdtemp(prefix="credence test "))
    folder.chmod(0o755)
    yield folder
    _remove(folder)


@pytest.fixture
def make_server(open_tmp_path: Path) -> Iterator[ServerMaker]:
    """Build servers below `open_tmp_path`; all of them stop when the test ends."""
    made: list[EmbeddedPostgres] = []

    def make(*, name: str = "pg", folder: Path | None = None, **wishes: Any) -> EmbeddedPostgres:
        wishes.setdefault("is_durable", False)
        server = EmbeddedPostgres(data_dir=(folder or open_tmp_path) / name, **wishes)
        made.append(server)
        return server

    yield make
    for server in made:
        server.stop(mode="immediate")


@pytest.fixture(scope="module", params=[18, 16], ids=["pg18", "pg16"])
def shared_server(request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres]:
    """One running server per major version, for tests that only talk SQL."""
    folder = Path(tempfile.mkdtemp(prefix="credence-test-"))
    folder.chmod(0o755)
    server = EmbeddedPostgres(data_dir=folder / "pg", version=request.param, is_durable=False)
    server.start()
    yield server
    server.stop(mode="immediate")
    _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a test's folder and what its links to the system's data folder point at."""
    for link in folder.rglob("*"):
        if link.is_symlink() and SYSTEM_ROOT in link.resolve().parents:
            shutil.rmtree(link.resolve().parent, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
