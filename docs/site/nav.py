"""Which pages the site has, in which order. A page that stands nowhere here fails the build."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
# Pages of the repository's root, and where they stand in the site.
OF_THE_ROOT: Final = {
    "SECURITY.md": "project/security.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
}
# Folders of docs/ that are no pages: how the site is built, and plans that were carried out.
NO_PAGES: Final = frozenset({"site", "plans"})
HOME: Final = "index.md"
API: Final = "api.md"
API_FOLDER: Final = "api"
ADRS: Final = "adr/README.md"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the navigation: what it is called, and its pages (paths below docs/)."""

    caption: str
    pages: tuple[str, ...]


PARTS: Final = (
    Part("First steps", ("quickstart.md", "concepts.md")),
    Part("中文", ("zh/index.md", "zh/quickstart.md")),
    Part("For staff", ("governance.md", "chat.md")),
    Part("For compliance", ("compliance.md", "uses.md", "audit.md")),
    Part("For developers of agents", (API, "context-engine.md", "retrieval.md", "tokens.md")),
    Part("For operators", ("operations.md", "tuning.md", "project/security.md", "injection.md")),
    Part("What was measured", ("benchmarks.md", "evaluation.md", "soak.md", "walls.md")),
    Part("The project", (ADRS, "project/contributing.md", "project/changelog.md")),
)


def pages_on_disk() -> dict[str, Path]:
    """Every page of the site that is kept in the repository: its place in the site and its file."""
    found = {
        path.relative_to(DOCS).as_posix(): path
        for path in sorted(DOCS.rglob("*.md"))
        if path.relative_to(DOCS).parts[0] not in NO_PAGES
    }
    return found | {place: ROOT / name for name, place in OF_THE_ROOT.items()}


def named_pages() -> list[str]:
    """The pages that the navigation leads to; the decisions stand below their list."""
    decisions = [place for place in pages_on_disk() if place.startswith("adr/") and place != ADRS]
    return [HOME, *(page for part in PARTS for page in part.pages), *decisions]
