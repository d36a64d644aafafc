"""A database for this process alone, and Django set up on it, outside of pytest."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import django
from django.core.management import call_command
from django.db import connections

from config.local.postgres import EmbeddedPostgres
from config.local.provision import provision


@contextmanager
def own_database() -> Iterator[None]:
    """Start an embedded server, migrate, and remove it in the end; once a process."""
    folder = Path(tempfile.mkdtemp(prefix="credence-eval-database-"))
    folder.chmod(0o755)
    server = EmbeddedPostgres(data_dir=folder / "pg", version=18, is_durable=False)
    try:
        urls = provision(admin_url=server.start().admin_url(), dbname="credence_eval")
        os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings.test"
        os.environ.setdefault("CREDENCE_LOG_LEVEL", "WARNING")
        os.environ["TEST_DATABASE_URL"] = urls.app
        os.environ["TEST_DATABASE_MAINT_URL"] = urls.maint
        os.environ["TEST_DATABASE_OWNER_URL"] = urls.owner
        django.setup(set_prefix=False)
        call_command("migrate", database="owner", verbosity=0)
        yield
        connections.close_all()
    finally:
        server.stop(mode="immediate")
        shutil.rmtree(folder, ignore_errors=True)
