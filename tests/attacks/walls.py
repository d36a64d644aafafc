"""The matrix of walls and cases: `python -m tests.attacks.walls` writes docs/walls.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.attacks.registry import Case, cases, walls

PAGE = Path(__file__).parents[2] / "docs" / "walls.md"
_HEAD = """# Walls and the cases that probe them

Made by `python -m tests.attacks.walls` from `tests/attacks/cases.toml` and the tests' own names and
docstrings; a test fails when it is not up to date, or when a case has neither test nor reason.

## Matrix
"""


def page() -> str:
    """Return the whole page."""
    every = cases()
    lines = [_HEAD, "| wall | cases | tests |", "|---|---|---:|"]
    for wall, meaning in walls().items():
        probing = [case for case in every if wall in case.walls]
        numbers = ", ".join(str(case.number) for case in probing)
        tests = {test for case in probing for test in case.tests}
        lines.append(
            f"| **{wall}**: {meaning.partition(': ')[2] or meaning} | {numbers} | {len(tests)} |"
        )
    lines += ["", "## Cases", ""]
    for case in every:
        lines += _told(case)
    return "\n".join(lines) + "\n"


def _told(case: Case) -> Iterator[str]:
    """Yield the lines of one case."""
    yield f"### {case.number}. {case.about} ({', '.join(case.walls)})"
    yield ""
    if case.reason and not case.tests:
        yield f"Not tried: {case.reason}."
    for test in case.tests:
        path, _, name = test.partition("::")
        yield f"- `{path.removeprefix('tests/')}` {name}"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
