"""The commands of the quickstarts, of the API page and of tuning, run as they stand by a shell.

Blocks marked `sh` are run; `bash` marks those that need root or a server that is not there. Waiting is
the only thing changed: where a page says `sleep`, the test waits until the worker has nothing to do.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.instance import ROOT, Instance

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed"),
]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r'"code":"(\w+)"')
PRELUDE = """set -eu
sleep() {
  for _ in $(seq 240); do
    command sleep 0.25
    is_idle ready && is_idle running && return
  done
}
is_idle() { api "/v1/jobs?status=$1&limit=1" | grep -q '"results":\\[\\]'; }
"""


def test_commands_of_the_pages_do_what_the_pages_say(tmp_path: Path) -> None:
    """One test for all pages, since an instance takes longer to start than they take to run."""
    with Instance() as instance:
        (tmp_path / "var").symlink_to(instance.var)  # like a checkout beside a running instance
        check_quickstart(tmp_path)
        check_chinese_quickstart(tmp_path)
        check_tuning(tmp_path)
        assert run_page("api.md", tmp_path) == ""


def run_page(name: str, folder: Path) -> str:
    """Everything that the blocks of a page print; the first command that fails ends the test."""
    blocks = BLOCK.findall((ROOT / "docs" / name).read_text("utf-8"))
    assert blocks
    done = subprocess.run(
        ["bash", "-c", PRELUDE + "\n".join(blocks)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-2000:]
    assert done.stderr == ""
    return done.stdout


def check_quickstart(folder: Path) -> None:
    told = run_page("quickstart.md", folder)
    assert told.count("My router ARX6 reboots every night at 02:00 since Monday.”") >= 2
    assert "event: completed" in told
    assert '"kind":"entity"' in told
    assert '"content":"ARX6 (product)"' in told
    assert '"status":"confirmed"' in told
    assert '"kind":"core","content":"I live in Berlin"' in told
    assert '{"results":[],"degraded":null}' in told
    assert "Amber means that firmware is being written." in told
    assert "(erp.stock, as of 2026-06-12 08:00 UTC, may be out of date): 12" in told
    assert '"covered_turns":12' in told
    refusals = {"not_found", "not_admitted", "similar_key", "legal_hold"}
    assert set(CODE.findall(told)) == refusals
    assert re.search(r'"status":"(done|running)","mode":"all"', told)


def check_chinese_quickstart(folder: Path) -> None:
    told = run_page("zh/quickstart.md", folder)
    assert "「期中考试定在11月5日下午两点，地点是三号楼201。」" in told
    assert "event: completed" in told
    assert '"content":"红黑树（concept）"' in told
    assert '"status":"confirmed"' in told
    assert '"kind":"core","content":"我住在杭州"' in told
    assert '{"results":[],"degraded":null}' in told
    assert set(CODE.findall(told)) == {"not_found", "not_admitted"}
    assert re.search(r'"status":"(done|running)","mode":"all"', told)


def check_tuning(folder: Path) -> None:
    told = run_page("tuning.md", folder)
    assert told.splitlines()[-2:] == ["200", "200"]
    assert "min_relevance {'default': 0.2" in told
