"""The three ways to serve the same Django, for comparing them on one page."""

from __future__ import annotations

import os

import django
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.local")
django.setup(set_prefix=False)

from config.handler import PooledHandler  # noqa: E402 - Django must be set up first

wsgi = get_wsgi_application()
asgi = get_asgi_application()
pooled = PooledHandler()
