"""No case of the list without a test or a reason, no test named that is not there, no stale page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.registry import cases, found_tests, numbers_of, walls
from tests.attacks.walls import page

PAGE = Path(__file__).parents[2] / "docs" / "walls.md"


@pytest.mark.req("B18")
def test_every_case_has_a_test_or_a_reason() -> None:
    assert [case.number for case in cases() if not case.tests and not case.reason] == []


def test_tests_of_the_table_exist_and_its_walls_are_named() -> None:
    there = {test for test, _ in found_tests()}
    assert [test for case in cases() for test in case.tests if test not in there] == []
    probed = {wall for case in cases() for wall in case.walls}
    assert probed == set(walls())


def test_list_is_whole() -> None:
    """As many as the list of cases has, the last one among them."""
    numbers = [case.number for case in cases()]
    assert (len(numbers), numbers[0], numbers[-1]) == (128, 1, 191)
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize(
    ("name", "docstring", "numbers"),
    [
        ("test_case_73_and_74_letters", "", {73, 74}),
        ("test_attack_125_file", "", {125}),
        ("test_cases_112_and_113_deep", "", {112, 113}),
        ("test_only_succeeded_runs_teach_53", "", {53}),
        ("test_x_answers_400", "", set()),
        ("test_x", "Cases 91 to 94, and bug report M2.", {91, 92, 93, 94}),
        ("test_x", "Case 160: again.", {160}),
        ("test_x", "67, 68 and 70: in every place.", {67, 68, 70}),
        ("test_x", "Holds 100 rows, just in case.", set()),
    ],
)
def test_numbers_are_read_from_names_and_docstrings(
    name: str, docstring: str, numbers: set[int]
) -> None:
    assert numbers_of(name, docstring) == numbers


def test_page_of_walls_is_up_to_date() -> None:
    """Made by `python -m tests.attacks.walls`."""
    assert PAGE.read_text(encoding="utf-8") == page()
