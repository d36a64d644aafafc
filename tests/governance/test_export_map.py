"""The export map: a walled table or a personal column that is in no map fails the build."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps

from governance.export.map import ABOUT, EXPORTED, NOT_EXPORTED, NUMBERS
from memory.checks import walled_models

WALLED: dict[str, Any] = {model._meta.label: model for model in walled_models().values()}


def test_every_walled_table_is_exported_or_has_a_reason() -> None:
    assert not EXPORTED.keys() & NOT_EXPORTED.keys()
    assert EXPORTED.keys() | NOT_EXPORTED.keys() == WALLED.keys()
    assert all(NOT_EXPORTED.values())
    assert len({how.type for how in EXPORTED.values()}) == len(EXPORTED)


@pytest.mark.req("E06")
@pytest.mark.parametrize("label", EXPORTED)
def test_every_personal_column_is_exported(label: str) -> None:
    """But for numbers that were made from texts which are."""
    model, how = WALLED[label], EXPORTED[label]
    left_out = {(label, name) for name in model.personal & how.left_out}
    assert left_out <= NUMBERS
    names = {field.name for field in model._meta.local_fields}
    assert how.left_out <= names, "a column that is gone"
    assert bool(how.left_out) == bool(how.reason)


def test_tables_with_a_person_are_not_left_out() -> None:
    """What names a person by a column is that person's, unless a reason says otherwise."""
    own = {label for label, model in WALLED.items() if model.walls.user}
    assert own & NOT_EXPORTED.keys() == {"governance.LegalHold"}
    assert set(ABOUT) <= EXPORTED.keys()
    for label in ABOUT:
        assert apps.get_model(label)._meta.get_field("end_user")
