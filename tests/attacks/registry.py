"""Which tests run which attack case: read from names, docstrings and cases.toml, without importing.

A test names its cases in its name (`_case_20`, `_attack_125`, a number at its end) or in its
docstring ("Cases 43 and 44", "Case 160", or numbers that begin it).
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
_TABLE = Path(__file__).with_name("cases.toml")
_NAMED = re.compile(r"(?:case|cases|attack)_(\d+(?:_and_\d+)*)")
_LAST = re.compile(r"(?<!answers)(?<!at)_(\d+(?:_and_\d+)*)$")
_TOLD = re.compile(r"(?:^|\b[Cc]ases? )(\d+(?:(?:, | and | to )\d+)*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case: what is tried, the walls it probes, and the tests, or why there is none."""

    number: int
    about: str
    walls: tuple[str, ...]
    tests: tuple[str, ...]
    reason: str


def walls() -> dict[str, str]:
    """Return the walls by their short names, in the order of the table."""
    return dict(_table()["walls"])


def cases() -> tuple[Case, ...]:
    """Return every case with the tests that name it and those that the table names."""
    table = _table()["cases"]
    found: dict[int, set[str]] = {int(number): set() for number in table}
    for test, numbers in found_tests():
        for number in numbers & found.keys():
            found[number].add(test)
    return tuple(
        Case(
            number=int(number),
            about=row["about"],
            walls=tuple(row["walls"].split()),
            tests=tuple(sorted(found[int(number)] | set(row.get("tests", ())))),
            reason=row.get("not", ""),
        )
        for number, row in table.items()
    )


@cache
def found_tests() -> tuple[tuple[str, set[int]], ...]:
    """Return each test as `path::name` with the numbers it names, of whatever list; read once."""
    return tuple(_found())


def _found() -> Iterator[tuple[str, set[int]]]:
    for path in sorted(TESTS.rglob("test_*.py")):
        place = path.relative_to(TESTS.parent).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if node.name.startswith("test_"):
                told = ast.get_docstring(node) or ""
                yield f"{place}::{node.name}", numbers_of(node.name, told)


def numbers_of(name: str, docstring: str) -> set[int]:
    """Return the numbers that a test's name and docstring hold."""
    texts = [match for pattern in (_NAMED, _LAST) for match in pattern.findall(name)]
    found = {int(number) for text in texts for number in text.split("_and_")}
    for text in _TOLD.findall(docstring):
        for part in re.split(r", | and ", text):
            first, _, last = part.partition(" to ")
            found |= set(range(int(first), int(last or first) + 1))
    return found


def _table() -> dict[str, dict[str, Any]]:
    return tomllib.loads(_TABLE.read_text(encoding="utf-8"))
