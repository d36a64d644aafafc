"""The soak in short, and its tools; the whole is `make soak`."""

from __future__ import annotations

import base64
import zlib

import pytest

from tests.soak.canaries import Canary, found_in, found_in_bytes
from tests.soak.findings import Findings
from tests.soak.run import Plan, Soak
from tests.soak.sampling import Samples, is_flat


def test_marks_are_found_in_any_case_and_in_what_base64_hides():
    mark = Canary("a", "zh1", 17)
    hidden = base64.b64encode(b"some words before " + str(mark).encode() + b" and after")
    packed = base64.urlsafe_b64encode(zlib.compress(str(mark).encode() * 9 + b"padding padding"))
    assert found_in(str(mark).lower()) == {mark}
    assert found_in_bytes(b"x " + hidden + b" y") == {mark}
    assert found_in_bytes(packed) == {mark}
    assert found_in("CNRY-a-zh1") == set()


@pytest.mark.parametrize(
    ("text", "person", "is_wrong"),
    [
        ("CNRY-a-zh1-1", "zh1", False),
        ("CNRY-a-all0-1", "zh1", False),
        ("CNRY-a-en1-1", "zh1", True),
        ("CNRY-b-zh1-1", "zh1", True),
        ("CNRY-a-en1-1", None, False),
        ("CNRY-b-all0-1", None, True),
    ],
)
def test_foreign_marks_in_an_answer_are_violations(text, person, is_wrong):
    findings = Findings()
    findings.look(where="an answer", text=text, tenant="a", person=person)
    assert bool(findings.violations) is is_wrong


def test_memory_that_grows_is_not_flat():
    steady, growing = Samples(began=0), Samples(began=0)
    steady.series["web"] = [(float(at), 200.0 + at % 3) for at in range(100)]
    growing.series["web"] = [(float(at), 200.0 + 3 * at) for at in range(100)]
    assert is_flat(steady.quarters("web"))
    assert not is_flat(growing.quarters("web"))


@pytest.mark.soak
@pytest.mark.req("B17", "A24")
@pytest.mark.timeout(900)
def test_a_minute_of_traffic_and_faults_leaves_nothing_crossed_lost_or_doubled(monkeypatch):
    soak = Soak(Plan(minutes=1, rate=4, faults=0.03, seed=11))
    made = soak.carry_out()
    assert made.findings.violations == {}
    assert made.figures["turns told to their clients"] > 20
