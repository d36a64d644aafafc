"""The ASGI entry point: `granian --interface asginl config.asgi:application`."""

from __future__ import annotations

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.local")
django.setup(set_prefix=False)

from config.handler import PooledHandler  # noqa: E402 - Django must be set up before its handlers

application = PooledHandler()
