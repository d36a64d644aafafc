"""Identifiers: right shape, sorted by time, never guessed from what is not one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.ids import PREFIXES, is_id, new_id


@pytest.mark.parametrize("prefix", sorted(PREFIXES))
def test_new_id_has_its_prefix_and_shape(prefix: str) -> None:
    made = new_id(prefix)
    assert made.startswith(f"{prefix}_")
    assert len(made) == len(prefix) + 27 <= 40
    assert is_id(made)
    assert is_id(made, prefix=prefix)
    assert not is_id(made, prefix="zz")


def test_new_ids_sort_by_creation_and_never_repeat() -> None:
    made = [new_id("run") for _ in range(2000)]
    assert len(set(made)) == 2000
    assert made == sorted(made)


def test_new_id_unknown_prefix_refused() -> None:
    for prefix in ("", "user", "run_", "RUN"):
        with pytest.raises(ValueError, match=f"^{prefix}$"):
            new_id(prefix)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "run_",
        "run",
        "_01h455vb4pex5vsknk084sn02q",
        "run_01h455vb4pex5vsknk084sn02",
        "run_01h455vb4pex5vsknk084sn02qq",
        "run_81h455vb4pex5vsknk084sn02q",
        "run_01h455vb4pex5vsknk084sn02u",
        "run_01H455VB4PEX5VSKNK084SN02Q",
        "RUN_01h455vb4pex5vsknk084sn02q",
        "run_01h455vb4pex5vsknk084sn02q\n",
        " run_01h455vb4pex5vsknk084sn02q",
        "nope_01h455vb4pex5vsknk084sn02q",
        "run_01h455vb4pex5vsknk084sn02\u0661",
        "run＿01h455vb4pex5vsknk084sn02q",
        "run_01h455vb4pex5vsknk084sn02\x00",
        "run_01h455vb4pex5vsknk084sn02\ud800",
    ],
)
def test_text_that_is_no_id_refused(text: str) -> None:
    assert is_id("run_01h455vb4pex5vsknk084sn02q", prefix="run")
    assert not is_id(text)


@given(st.text(st.characters(exclude_categories=()), max_size=60))
def test_any_text_answered_without_an_error(text: str) -> None:
    assert is_id(text) in (True, False)
