"""Settings of a production server: everything required comes from the environment or files."""

from __future__ import annotations

import json

from config.settings import env
from config.settings.base import *
from config.settings.base import database_roles, databases

DEBUG = False
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", "")
SECRET_KEY = env.text("DJANGO_SECRET_KEY")
CREDENCE_KEY_PEPPERS = {
    int(version): pepper for version, pepper in json.loads(env.text("CREDENCE_KEY_PEPPERS")).items()
}
CREDENCE_ENCRYPTION_KEYS = [
    key.strip() for key in env.text("CREDENCE_ENCRYPTION_KEYS").split(",") if key.strip()
]
DATABASES = databases(
    app=env.text("DATABASE_URL"),
    maint=env.text("DATABASE_MAINT_URL"),
    owner=env.text("DATABASE_OWNER_URL", "") or None,
)
CREDENCE_DATABASE_ROLES = database_roles(DATABASES)
SECURE_SSL_REDIRECT = env.flag("SECURE_SSL_REDIRECT", default=True)
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]
SECURE_HSTS_SECONDS = int(env.number("SECURE_HSTS_SECONDS", 31_536_000))
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
