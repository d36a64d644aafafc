"""Names of tables and columns in the reader's language.

Django makes them of the names in the code. Here they are looked up in the catalogue when they are
shown; migrations, which read what a class declares, see nothing of it.
"""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy

_NAMED: set[type[models.Model]] = set()
_APPS: set[str] = set()
# Where the name in the code takes more than an s.
_PLURALS = {"tenant policy" + "s": "tenant policies"}


def name_in_words(model: type[models.Model]) -> None:
    """Let the names of a table and of its columns be translated where they are shown; once."""
    if model in _NAMED:
        return
    _NAMED.add(model)
    options: Any = model._meta
    options.verbose_name, options.verbose_name_plural = (
        gettext_lazy(str(options.verbose_name)),
        gettext_lazy(
            _PLURALS.get(str(options.verbose_name_plural), str(options.verbose_name_plural))
        ),
    )
    app: Any = options.app_config
    if app.label not in _APPS:
        _APPS.add(app.label)
        app.verbose_name = gettext_lazy(str(app.verbose_name))
    for field in model._meta.local_fields:
        words: Any = field
        words.verbose_name = gettext_lazy(str(field.verbose_name))
