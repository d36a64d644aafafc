"""Settings of the test suite; tests/conftest.py starts the server and puts its addresses here."""

from __future__ import annotations

import os

from config.settings.base import *
from config.settings.base import database_roles, databases

DEBUG = False
ALLOWED_HOSTS = ["*"]
SECRET_KEY = "test-only"  # noqa: S105 - signs nothing outside the test suite
CREDENCE_KEY_PEPPERS = {1: "test-pepper-one", 2: "test-pepper-two"}
CREDENCE_ENCRYPTION_KEYS = ["QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="]
DATABASES = databases(
    app=os.environ.get("TEST_DATABASE_URL", "postgresql://credence_app@localhost/none"),
    maint=os.environ.get("TEST_DATABASE_MAINT_URL", "postgresql://credence_maint@localhost/none"),
    owner=os.environ.get("TEST_DATABASE_OWNER_URL", "postgresql://credence_owner@localhost/none"),
)
CREDENCE_DATABASE_ROLES = database_roles(DATABASES)
CREDENCE_PROVIDER_HOSTS = ["loopback"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
# The suite asks with many wrong keys from one address; tests of the limits set their own.
CREDENCE_WRONG_KEYS_PER_MINUTE = 0
CREDENCE_KEY_REQUESTS_PER_MINUTE = 0
