"""Builds the docs site: `make docs`, into var/site. Any warning, dead link or foreign host is an error.

Takes some fifteen seconds of processor time. Needs no database and no network.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from sphinx.cmd.build import build_main

from docs.site import checks, reference, search_index
from docs.site.nav import API_FOLDER, DOCS, ROOT, pages_on_disk
from docs.site.staging import stage


def openapi_document() -> dict[str, Any]:
    """The document that /v1/openapi.json would be, made by the same code in a process of its own.

    Raises:
        RuntimeError: It could not be made; with what was said.
    """
    made = subprocess.run(
        [sys.executable, "-W", "ignore", "manage.py", "spectacular", "--format", "openapi-json"],
        cwd=ROOT,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "config.settings.test"},
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise RuntimeError(f"manage.py spectacular failed:\n{made.stderr[-4000:]}")
    document: dict[str, Any] = json.loads(made.stdout)
    return document


def build(site: Path, *, work: Path) -> list[str]:
    """Build into `site`, by way of `work`; return what is wrong, nothing if all is well."""
    shutil.rmtree(site, ignore_errors=True)
    pages = reference.pages(openapi_document())
    stage(work / "pages", reference=pages)
    options = ["--builder", "html", "--quiet", "--fail-on-warning", "--nitpicky", "--fresh-env"]
    places = ["--conf-dir", str(DOCS / "site"), "--doctree-dir", str(work / "doctrees")]
    failed = build_main([*options, *places, str(work / "pages"), str(site)])
    if failed:
        return ["Sphinx is not content with the pages; what it says stands above."]
    search_index.write(site)
    files = [path for path in {*pages_on_disk().values(), ROOT / "README.md"} if path.is_file()]
    made = {DOCS / API_FOLDER / name for name in pages}
    return checks.problems(site) + checks.broken_links(sorted(files), root=ROOT, made=made)


def main() -> int:
    """0: the site is there and whole; 1: it is not, and why."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "var" / "site", help="where to")
    options = parser.parse_args()
    begun = time.monotonic()
    site = options.out.resolve()
    wrong = build(site, work=site.with_name(f"{site.name}-work"))
    for line in wrong:
        sys.stderr.write(f"{line}\n")
    if wrong:
        return 1
    count = len(list(site.rglob("*.html")))
    took = time.monotonic() - begun
    sys.stdout.write(f"{count} pages in {took:.0f} s: open {site / 'index.html'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
