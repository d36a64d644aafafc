"""Settings of `make run`: the embedded server, or DATABASE_URL, with secrets made on first use.

`manage.py` with CREDENCE_VAR set reaches the running instance, as role `app`.
"""

from __future__ import annotations

import os

from django.core.exceptions import ImproperlyConfigured

from config.settings import env
from config.settings.base import *
from config.settings.base import CREDENCE_VAR, database_roles, databases

_instance = env.json_file(CREDENCE_VAR / "instance.json")
_secrets = env.json_file(CREDENCE_VAR / "secrets.json")
_urls = {
    "app": os.environ.get("DATABASE_URL") or _instance.get("app", ""),
    "maint": os.environ.get("DATABASE_MAINT_URL") or _instance.get("maint", ""),
    "owner": os.environ.get("DATABASE_OWNER_URL") or _instance.get("owner", ""),
}
if not _urls["app"] or not _secrets:
    raise ImproperlyConfigured(
        "No running instance was found: start one with `make run`, set CREDENCE_VAR to the data"
        " folder of a running one, or use config.settings.production with DATABASE_URL."
    )

DEBUG = False
ALLOWED_HOSTS = ["*"]
SECRET_KEY = _secrets["secret_key"]
CREDENCE_KEY_PEPPERS = {int(version): pepper for version, pepper in _secrets["peppers"].items()}
CREDENCE_ENCRYPTION_KEYS = list(_secrets["encryption_keys"])
DATABASES = databases(
    app=_urls["app"], maint=_urls["maint"] or _urls["app"], owner=_urls["owner"] or None
)
CREDENCE_DATABASE_ROLES = database_roles(DATABASES)
CREDENCE_PROVIDER_HOSTS = env.words("CREDENCE_PROVIDER_HOSTS", "loopback")
