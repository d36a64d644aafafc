"""write_artifact, and the files that runs leave and go on with."""

from __future__ import annotations

import pytest

from memory.ids import is_id
from memory.rls import scoped_transaction
from tests.factories import NOW, make_artifact, make_run, scope_of
from tests.threads.tools.rooms import Room, use
from threads.models import Artifact, Run
from threads.tools.artifacts import MOST_FILES, MOST_RUNS_BACK, read_workspace, store_artifacts
from threads.tools.records import WorkspaceFile

KEY = "sk-proj-4f9aQ7zL2mX8Kd03Bv6Yt1Rw5Ns9Hc2Je7Gu"


def workspace_of(room: Room, run: Run) -> tuple[WorkspaceFile, ...]:
    scope = scope_of(room.tenant, room.person, room.thread)
    with scoped_transaction(scope):
        return read_workspace(scope=scope, run_id=run.pk)


def test_written_file_is_kept_in_hand_and_said(room: Room) -> None:
    box = room.box()
    found = use(box, "write_artifact", name="试卷.md", content="# 数据结构 😀")
    (file,) = box.written
    assert is_id(file.id, prefix="art")
    assert (file.name, file.content, file.bytes) == ("试卷.md", "# 数据结构 😀", 19)
    assert file.id in found.shown
    assert "“试卷.md”, 19 bytes" in found.summary
    with scoped_transaction(scope_of(room.tenant)):
        assert not Artifact.objects.in_scope(scope_of(room.tenant)).exists()


def test_same_name_replaces_and_keeps_its_id(room: Room) -> None:
    box = room.box()
    use(box, "write_artifact", name="a.md", content="1")
    use(box, "write_artifact", name="b.md", content="2")
    first = box.written[0].id
    found = use(box, "write_artifact", name=" a.md ", content="333")
    assert [(file.name, file.content) for file in box.written] == [("a.md", "333"), ("b.md", "2")]
    assert box.written[0].id == first
    assert "replaced" in found.summary


@pytest.mark.parametrize(
    "name",
    [
        ".", "..", "/", "a/b", "../../etc/passwd", "a\\b", "C:\\x", "a\nb", "a\0b", "a\x1bb",
        "a\u202egpj.exe", "a\u200bb", "a\ufeffb", "a\u2028b", "a\U000e0041b", "a\ufe00b", "\ud800", "a\u200d", "a\ue000b",
        "x" * 201, "   ", "",
    ],
)  # fmt: skip
def test_case_125_names_that_are_no_plain_file_names_are_refused(room: Room, name: str) -> None:
    box = room.box()
    found = use(box, "write_artifact", name=name, content="x")
    assert found.is_error
    assert box.written == ()


@pytest.mark.parametrize("name", ["CON", "x" * 200, "résumé.md", "👩‍💻.md", ".gitignore", "%s {0}"])
def test_case_125_odd_but_plain_names_are_kept(room: Room, name: str) -> None:
    box = room.box()
    assert not use(box, "write_artifact", name=name, content="").is_error
    assert box.written[0].name == name


def test_name_is_composed_so_that_one_name_is_one_file(room: Room) -> None:
    box = room.box()
    use(box, "write_artifact", name="re\u0301sume\u0301", content="1")
    use(box, "write_artifact", name="r\u00e9sum\u00e9", content="2")
    assert [file.content for file in box.written] == ["2"]


@pytest.mark.req("B20")
def test_case_91_secrets_are_stripped_before_anything_is_kept(room: Room) -> None:
    box = room.box()
    found = use(box, "write_artifact", name=f"{KEY}.md", content=f"key {KEY} 密码是 hunter2A9!")
    kept = repr((box.written, found.content, found.shown, found.summary, found.trace_data()))
    assert KEY not in kept
    assert "hunter2A9!" not in kept
    assert "[secret:" in box.written[0].content


def test_twenty_files_are_the_most(room: Room) -> None:
    box = room.box()
    for number in range(20):
        assert not use(box, "write_artifact", name=f"{number}.md", content="x").is_error
    over = use(box, "write_artifact", name="one more.md", content="x")
    assert (over.is_error, "at most 20 files" in over.content) == (True, True)
    assert not use(box, "write_artifact", name="7.md", content="y").is_error
    assert len(box.written) == 20


@pytest.mark.parametrize("content", ['{"a": {b}} %s {0.__class__}', "a') OR 1=1--", "x\r\n端 "])
def test_stored_files_come_back_byte_for_byte(room: Room, content: str) -> None:
    box = room.box()
    use(box, "write_artifact", name="a.md", content=content)
    run = make_run(room.thread)
    scope = scope_of(room.tenant, room.person, room.thread)
    with scoped_transaction(scope):
        store_artifacts(
            scope=scope, run_id=run.pk, thread_id=room.thread.pk, end_user_id=room.person.pk,
            artifacts=box.written, now=NOW,
        )  # fmt: skip
    (file,) = workspace_of(room, run)
    assert (file.id, file.run_id, file.content) == (box.written[0].id, run.pk, content)
    assert (file.bytes, file.created_at) == (len(content.encode()), NOW)


def test_workspace_has_the_newest_version_of_each_name(room: Room) -> None:
    first = make_run(room.thread)
    second = make_run(room.thread, continues=first)
    third = make_run(room.thread, continues=second)
    make_artifact(first, name="a.md", content="a1")
    make_artifact(first, name="b.md", content="b1")
    make_artifact(third, name="c.md", content="c3")
    make_artifact(second, name="a.md", content="a2")
    make_artifact(make_run(room.thread), name="b.md", content="not of the chain")
    names = {file.name: file.content for file in workspace_of(room, third)}
    assert names == {"a.md": "a2", "b.md": "b1", "c.md": "c3"}
    assert [file.name for file in workspace_of(room, third)] == ["b.md", "a.md", "c.md"]
    assert {file.name for file in workspace_of(room, first)} == {"a.md", "b.md"}


def test_workspace_is_bounded_in_depth_and_count(room: Room) -> None:
    run = make_run(room.thread)
    make_artifact(run, name="oldest.md")
    for _ in range(MOST_RUNS_BACK):
        run = make_run(room.thread, continues=run)
    assert workspace_of(room, run) == ()
    for number in range(MOST_FILES + 3):
        make_artifact(run, name=f"{number}.md")
    found = workspace_of(room, run)
    assert [file.name for file in found] == [f"{at}.md" for at in range(3, MOST_FILES + 3)]


def test_workspace_survives_runs_that_continue_each_other(room: Room) -> None:
    first = make_run(room.thread)
    second = make_run(room.thread, continues=first)
    make_artifact(first, name="a.md")
    with scoped_transaction(scope_of(room.tenant)):
        Run.objects.in_scope(scope_of(room.tenant)).filter(pk=first.pk).update(continues=second)
    assert [file.name for file in workspace_of(room, second)] == ["a.md"]


@pytest.mark.req("B18")
def test_workspace_of_another_person_or_tenant_is_empty(room: Room, strangers: list[Room]) -> None:
    for stranger in strangers[:2]:
        run = make_run(stranger.thread)
        make_artifact(run)
        assert workspace_of(room, run) == ()
        assert len(workspace_of(stranger, run)) == 1
