"""What the text steps of every run cost, on the demo's own conversations."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from governance.redlines import find_redlines
from governance.secrets import strip_secrets
from memory.sanitize import sanitize
from memory.tokens import estimate

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("ignore")]
DEMO = Path(__file__).parents[2] / "config" / "local" / "demo"


def texts(name: str) -> list[str]:
    """The messages of one demo file."""
    lines = (DEMO / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["content"] for line in lines]


def micros_per_kb(step: Callable[[str], object], words: list[str]) -> float:
    """Median of seven passes over all texts, in µs for 1,000 bytes."""
    size_kb = sum(len(word.encode()) for word in words) / 1000
    passes = []
    for _ in range(7):
        started = time.perf_counter()
        for word in words:
            step(word)
        passes.append((time.perf_counter() - started) * 1e6 / size_kb)
    return median(passes)


def test_text_steps(capsys):
    steps: dict[str, Callable[[str], object]] = {
        "estimate": estimate,
        "sanitize": sanitize,
        "strip_secrets": strip_secrets,
        "find_redlines": find_redlines,
    }
    for name in ("teacher_zh.jsonl", "support_en.jsonl"):
        words = texts(name)
        for label, step in steps.items():
            figure = micros_per_kb(step, words)
            assert figure > 0
            with capsys.disabled():
                print(f"{name} {label}: {figure:.0f} µs/KB")
