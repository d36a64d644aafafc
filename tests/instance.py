"""A whole Credence as its operator starts it, in a folder of its own; for journeys, crashes, benches."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
START_SECONDS = 120.0
STOP_SECONDS = 40.0


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Instance:
    """`python -m config.local.run` on a free port with a data folder of its own."""

    def __init__(self, **environment: str) -> None:
        self.var = Path(tempfile.mkdtemp(prefix="credence-instance-"))
        self.var.chmod(0o755)
        self.port = free_port()
        self.base_url = f"http://127.0.0.1:{self.port}"
        self.log = self.var / "run.log"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TEST_", "DJANGO_"))}
        kept.pop("DATABASE_URL", None)
        self.environment = kept | {
            "CREDENCE_VAR": str(self.var),
            "PORT": str(self.port),
            "PYTHONUNBUFFERED": "1",
            **environment,
        }
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Instance:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.remove()

    @property
    def demo(self) -> dict[str, Any]:
        """What `make run` wrote for whoever wants to try it."""
        found: dict[str, Any] = json.loads((self.var / "demo.json").read_text(encoding="utf-8"))
        return found

    def start(self) -> None:
        """Start it and wait until it says that it is ready."""
        offset = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "config.local.run"],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        until = time.monotonic() + START_SECONDS
        while b"Ctrl-C stops it" not in self.log.read_bytes()[offset:]:
            if self.process.poll() is not None or time.monotonic() > until:
                text = self.log.read_text(encoding="utf-8", errors="replace")
                self.stop()
                raise AssertionError(f"the instance did not start:\n{text[-4000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop it as Ctrl-C does."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise

    def kill(self) -> None:
        """kill -9 the launcher, as the kernel would when memory runs out."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def remove(self) -> None:
        """Remove its data, also what a link of the launcher points at."""
        data = self.var / "postgres"
        if data.is_symlink():
            shutil.rmtree(data.resolve().parent, ignore_errors=True)
        shutil.rmtree(self.var, ignore_errors=True)

    def manage(self, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        """Run a command of manage.py against the running instance."""
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment | extra,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
