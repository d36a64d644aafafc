"""The tree of errors: a stable code each, a default detail, nothing foreign in it."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

import governance
import memory
import threads
from memory.errors import CredenceError, InvalidInputError, NotFoundError, UndecidedQueryError

CODE = re.compile(r"^[a-z]+(_[a-z]+)*$")


def every_error() -> list[type[CredenceError]]:
    """Every class of the tree, after importing all modules that may define one."""
    for package in (memory, governance, threads):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not {"migrations", "management"} & set(module.name.split(".")):
                importlib.import_module(module.name)
    found: list[type[CredenceError]] = []
    waiting = [CredenceError]
    while waiting:
        error = waiting.pop()
        found.append(error)
        waiting += error.__subclasses__()
    return [error for error in found if error.__module__.split(".")[0] != "tests"]


def test_every_error_has_a_code_a_name_and_a_detail() -> None:
    errors = every_error()
    assert len(errors) > 20
    for error in errors:
        assert error.__name__.endswith("Error")
        assert CODE.match(error.code), error
        assert (error.__doc__ or "").strip(), error


def test_detail_is_the_first_line_of_the_docstring_or_what_was_given() -> None:
    assert NotFoundError().detail == "No such object."
    assert str(NotFoundError()) == "No such object."
    assert NotFoundError("Kein Eintrag").detail == "Kein Eintrag"
    assert InvalidInputError("bad", field="input").field == "input"
    assert InvalidInputError().field is None
    assert UndecidedQueryError().code == "undecided_query"


@pytest.mark.req("B18")
def test_unknown_and_forbidden_say_the_same_words() -> None:
    """Attack case 1: nothing in the default detail tells a foreign object from none."""
    assert NotFoundError().detail == NotFoundError().detail
    assert "scope" not in NotFoundError().detail.lower()
