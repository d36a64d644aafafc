"""The whole site, as `make docs` builds it: strict, complete, and asking no other host for anything."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.site import nav, reference
from docs.site.checks import problems

ROOT = Path(__file__).parents[2]
FETCHING = re.compile(
    r"<(?:script|link|img|iframe|source|video|use|object)\b[^>]*?\b(?:src|href|srcset|data|poster)="
    r"[\"']((?:https?:)?//[^\"']+)"
)


@pytest.mark.timeout(300)
def test_site_is_built_whole_and_asks_no_other_host_for_anything(tmp_path: Path) -> None:
    site = tmp_path / "site"
    built = subprocess.run(
        [sys.executable, "-m", "docs.site.build", "--out", str(site)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr[-4000:]
    assert problems(site) == []
    texts = {
        path.relative_to(site).as_posix(): path.read_text("utf-8") for path in site.rglob("*.html")
    }
    wanted = [*nav.named_pages(), *(f"api/{tag.lower()}.md" for tag in reference.TAGS)]
    assert [page for page in wanted if page.replace(".md", ".html") not in texts] == []
    assert 'lang="zh-Hans"' in texts["zh/index.html"]
    assert 'lang="en"' in texts["index.html"]
    # Said twice on purpose: by the check of the build, and here by a plain search of the texts.
    assert {name: found for name, text in texts.items() if (found := FETCHING.findall(text))} == {}
    styles = "".join(path.read_text("utf-8") for path in site.rglob("*.css"))
    assert "@font-face" not in styles
    assert re.findall(r"url\(['\"]?(?:https?:)?//", styles) == []


@pytest.mark.timeout(300)
def test_dead_link_fails_the_build(tmp_path: Path) -> None:
    """Sphinx itself refuses what leads nowhere, so that no page with a dead link comes out."""
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages/index.md").write_text("# A\n\n[b](gone.md) and [c](#gone)\n", "utf-8")
    built = subprocess.run(
        [
            *(sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"),
            *("-c", str(ROOT / "docs/site"), str(tmp_path / "pages"), str(tmp_path / "out")),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode != 0
    assert "gone.md" in built.stderr
