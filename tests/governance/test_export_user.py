"""The command export_user: a person's export on standard output, in a new file, or by a link."""

from __future__ import annotations

import hashlib
import io
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from governance.export import open_link
from governance.models import AuditEntry, ExportLink
from memory.models import EndUser, Tenant
from memory.rls import scoped_transaction
from tests.factories import make_agent, make_end_user, make_tenant, make_thread, scope_of
from tests.talking import tell

pytestmark = pytest.mark.usefixtures("committed_db")

USER = "销售/张伟%20@example.org"


def talker(tenant: Tenant, word: str, *, user_id: str = USER) -> EndUser:
    """Somebody who has said one thing in each of two languages."""
    person = make_end_user(tenant, user_id=user_id)
    thread = make_thread(make_agent(tenant), person, title="bees")
    tell(thread, [(f"I keep {word} bees", "How many?"), (f"{word} 我养了七箱蜜蜂", "很好")])
    return person


def run(tenant: Tenant, *arguments: str, user: str = USER) -> str:
    out = io.StringIO()
    call_command("export_user", "--tenant", tenant.slug, "--user", user, *arguments, stdout=out)
    return out.getvalue()


def exported(raw: bytes) -> list[dict[str, Any]]:
    """The lines of a whole export, whose last line fits the others."""
    *before, last = raw.splitlines(keepends=True)
    told = json.loads(last)
    assert told["type"] == "end"
    assert told["sha256"] == hashlib.sha256(b"".join(before)).hexdigest()
    assert sum(told["counts"].values()) == len(before) - 1
    return [json.loads(line) for line in (*before, last)]


def acts(tenant: Tenant) -> list[dict[str, Any]]:
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        rows = AuditEntry.objects.in_scope(scope).filter(action="person_exported")
        return [dict(row) for row in rows.values("target_id", "detail")]


@pytest.mark.req("E06")
def test_export_user_writes_one_person_and_neither_neighbour_nor_namesake() -> None:
    """Two tenants and a stranger: the same user_id elsewhere is somebody else."""
    tenant, other = make_tenant(), make_tenant()
    person = talker(tenant, "buckfast")
    talker(tenant, "carniolan", user_id="neighbour")
    talker(other, "ligurian")
    out = run(tenant)
    lines = exported(out.encode())
    assert (lines[0]["id"], lines[0]["user_id"]) == (person.pk, USER)
    assert lines[-1]["counts"]["run"] == 2
    assert "buckfast 我养了七箱蜜蜂" in out
    assert "carniolan" not in out
    assert "ligurian" not in out
    assert [act["target_id"] for act in acts(tenant)] == [person.pk]
    assert acts(tenant)[0]["detail"]["via"] == "command"
    assert acts(other) == []


def test_export_user_to_a_terminal_of_another_encoding_stays_utf8() -> None:
    tenant = make_tenant()
    talker(tenant, "buckfast")
    raw = io.BytesIO()
    terminal = io.TextIOWrapper(raw, encoding="latin-1")
    call_command("export_user", "--tenant", tenant.slug, "--user", USER, stdout=terminal)
    exported(raw.getvalue())
    assert "蜜蜂" in raw.getvalue().decode()


def test_export_user_into_a_file_is_private_whole_and_counted(tmp_path: Path) -> None:
    tenant = make_tenant()
    person = talker(tenant, "buckfast")
    file = tmp_path / "张伟.jsonl"
    told = json.loads(run(tenant, "--output", str(file), "--json"))
    lines = exported(file.read_bytes())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (told["person"], told["bytes"]) == (person.pk, file.stat().st_size)
    assert told["counts"] == lines[-1]["counts"]
    assert list(tmp_path.iterdir()) == [file], "no passing file stays"


def test_export_user_where_something_is_already_leaves_it_and_exports_nothing(
    tmp_path: Path,
) -> None:
    """Also a symbolic link that leads nowhere is something; a missing folder is refused, too."""
    tenant = make_tenant()
    talker(tenant, "buckfast")
    file, dangling = tmp_path / "there.jsonl", tmp_path / "dangling"
    file.write_text("mine")
    dangling.symlink_to(tmp_path / "nowhere")
    for place in (file, dangling, tmp_path / "no" / "folder.jsonl"):
        with pytest.raises(CommandError):
            run(tenant, "--output", str(place))
    assert file.read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()
    assert acts(tenant) == []


def test_export_user_of_an_unknown_person_fails_and_makes_no_file(tmp_path: Path) -> None:
    tenant, other = make_tenant(), make_tenant()
    talker(other, "ligurian")
    with pytest.raises(CommandError, match="not_found"):
        run(tenant, "--output", str(tmp_path / "out.jsonl"))
    assert list(tmp_path.iterdir()) == []


def test_export_user_link_leads_to_the_export_and_keeps_no_secret() -> None:
    tenant = make_tenant()
    person = talker(tenant, "buckfast")
    told = json.loads(run(tenant, "--link", "--valid-hours", "2", "--json"))
    token = told["path"].removeprefix("/exports/")
    with open_link(token=token, now=timezone.now()).file as file:
        assert exported(file.read())[0]["id"] == person.pk
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        link = ExportLink.objects.in_scope(scope).get(pk=told["link"])
    assert link.downloads == 1
    assert (link.expires_at - link.created_at).total_seconds() == 2 * 3600
    assert token.rpartition(".")[2] not in repr(link.__dict__)
