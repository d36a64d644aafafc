"""DATABASE_URL: the same product on a server reached over TCP, with passwords and plain roles."""

from __future__ import annotations

import json
import shutil
import tempfile
import urllib.request
from pathlib import Path

import psycopg
import pytest

from config.local.postgres import EmbeddedPostgres
from config.local.provision import APP_ROLE, MAINT_ROLE, OWNER_ROLE, provision
from tests.instance import Instance, free_port

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(params=[18, pytest.param(16, marks=pytest.mark.slow)])
def urls(request):
    """A server on a TCP port that asks for passwords, and the three roles' URLs."""
    folder = Path(tempfile.mkdtemp(prefix="credence-tcp-"))
    folder.chmod(0o755)
    server = EmbeddedPostgres(
        data_dir=folder / "pg", version=request.param, tcp_port=free_port(), password="super secret"
    )
    address = server.start()
    passwords = {role: f"{role} pass/wörd%" for role in (APP_ROLE, MAINT_ROLE, OWNER_ROLE)}
    yield provision(admin_url=address.admin_url(), dbname="own", passwords=passwords)
    server.stop(mode="immediate")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.req("E01")
def test_product_runs_on_own_server_over_tcp_as_plain_roles(urls):
    with psycopg.connect(urls.app) as connection:
        row = connection.execute(
            "SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"
        ).fetchone()
    assert row == (False, False)
    with Instance(
        DATABASE_URL=urls.app, DATABASE_MAINT_URL=urls.maint, DATABASE_OWNER_URL=urls.owner
    ) as instance:
        assert not (instance.var / "postgres").exists()
        tenant = instance.demo["tenants"][0]
        body = {"input": "简答题换了哪两道？", "user_id": "teacher-7"}
        request = urllib.request.Request(
            f"{instance.base_url}/v1/agents/{tenant['agent_id']}/run",
            data=json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {tenant['api_key']}",
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert json.load(answer)["status"] == "succeeded"
        doctor = instance.manage("doctor", "--json")
        assert doctor.returncode == 0, doctor.stdout + doctor.stderr


def test_database_url_without_other_roles_is_refused_with_what_to_do(urls):
    instance = Instance(DATABASE_URL=urls.app)
    try:
        with pytest.raises(AssertionError, match="DATABASE_MAINT_URL"):
            instance.start()
    finally:
        instance.remove()
