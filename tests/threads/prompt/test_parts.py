"""The sections of a prompt besides the thread's past."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from governance.policy_rules import effective
from memory.boundary import CHINESE, ENGLISH
from memory.tokens import estimate
from threads.prompt.parts import Candidates, workspace_candidates
from threads.tools.records import WorkspaceFile

NOW = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)


def file(number: int, content: str = "合计 12 元") -> WorkspaceFile:
    return WorkspaceFile(
        id=f"art_01jd000000000000000000000{number}",
        run_id="run_01jd0000000000000000000000",
        name=f"f{number}.md",
        content=content,
        bytes=len(content.encode()),
        created_at=NOW,
    )


@pytest.mark.req("A12")
@pytest.mark.parametrize("wording", [CHINESE, ENGLISH])
def test_files_to_go_on_with_are_listed_and_those_asked_for_begin(wording: object) -> None:
    files = [file(number) for number in range(8)]
    candidates = Candidates(
        wording=wording,  # type: ignore[arg-type]
        tag="#0123456789",
        policy=effective({}),
        by_section={"continue": workspace_candidates(files=files, question="f6.md 的合计？")},
    )
    packed = candidates.pack("continue", room=4000)
    assert packed.row.granted == estimate(packed.text) <= 400
    assert packed.shown[0].id == files[6].id
    assert packed.text.count("合计 12 元") == 1
    assert len(packed.shown) >= 6
    assert all(f"f{number}.md" in packed.text for number in (6, 7, 5))


def test_few_files_all_show_how_they_begin() -> None:
    shown = workspace_candidates(files=[file(1), file(2)], question="接着写")
    assert [one.text for one in shown] == ["合计 12 元"] * 2
