"""The ASGI entry point: `granian --interface asginl config.asgi:application`.

Refuses to serve when the database's walls are not as they must be (DESIGN section 3).
"""

from __future__ import annotations

import os

import django
from django.db import connections

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.local")
django.setup(set_prefix=False)

# These need Django set up.
from config.handler import PooledHandler  # noqa: E402
from memory.checks import refuse_unless_walled  # noqa: E402
from memory.conf import default_embedding_model  # noqa: E402
from memory.providers.embeddings.registry import warm_in_background  # noqa: E402

refuse_unless_walled()
connections.close_all()
if default_embedding_model() != "none":
    # Serving begins at once; a question that comes before the model is loaded waits for it.
    warm_in_background(default_embedding_model())
application = PooledHandler()
