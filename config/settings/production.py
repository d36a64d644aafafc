"""Settings of a production server: everything required comes from the environment or files."""

from __future__ import annotations

import json

from django.core.exceptions import ImproperlyConfigured

from config.settings import env
from config.settings.base import *
from config.settings.base import database_roles, databases
from config.settings.strength import require_strong, strong_keys, strong_peppers

DEBUG = False
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", "")
SECRET_KEY = require_strong("DJANGO_SECRET_KEY", env.text("DJANGO_SECRET_KEY"))
SECRET_KEY_FALLBACKS = env.words("DJANGO_SECRET_KEY_FALLBACKS", "")
try:
    _peppers = json.loads(env.text("CREDENCE_KEY_PEPPERS"))
except json.JSONDecodeError:
    _peppers = None
if not isinstance(_peppers, dict):
    # Outside the handler: the error of the parser would quote what it read.
    raise ImproperlyConfigured(
        'CREDENCE_KEY_PEPPERS is a JSON object of version to pepper: {"1": "…"}.'
    )
CREDENCE_KEY_PEPPERS = strong_peppers(_peppers)
CREDENCE_ENCRYPTION_KEYS = strong_keys(env.words("CREDENCE_ENCRYPTION_KEYS"))
DATABASES = databases(
    app=env.text("DATABASE_URL"),
    maint=env.text("DATABASE_MAINT_URL"),
    owner=env.text("DATABASE_OWNER_URL", "") or None,
)
CREDENCE_DATABASE_ROLES = database_roles(DATABASES)
SECURE_SSL_REDIRECT = env.flag("SECURE_SSL_REDIRECT", default=True)
# Believed only where the operator says so: without a proxy that sets it, anybody may send it.
if _header := env.text("CREDENCE_PROXY_SSL_HEADER", ""):
    SECURE_PROXY_SSL_HEADER = ("HTTP_" + _header.upper().replace("-", "_"), "https")
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]
SECURE_HSTS_SECONDS = int(env.number("SECURE_HSTS_SECONDS", 31_536_000))
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SESSION_COOKIE_SECURE = True
SESSION_COOKIE_NAME = "__Host-credence"
CSRF_COOKIE_SECURE = True
CSRF_COOKIE_NAME = "__Host-csrf"
CSRF_COOKIE_HTTPONLY = True
