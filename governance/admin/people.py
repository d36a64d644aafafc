"""Naming people on pages of staff: accounts by their names, persons by their ids."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from governance.admin.text import EMPTY, without_hidden


def name_of(actor: str) -> str:
    """Return a principal's id, beside a staff's one the account's name. Cost: one query."""
    kind, _sign, number = actor.partition(":")
    if kind != "staff" or not (number.isascii() and number.isdigit() and len(number) < 10):
        return without_hidden(actor)
    name = User.objects.filter(pk=int(number)).values_list("username", flat=True).first()
    return f"{without_hidden(name)} ({actor})" if name else actor


def linked(path: str, room: str, *, label: Any = None) -> Any:
    """Return a column that shows the id of a related row as the way to its page.

    Args:
        path: Attribute with the id, such as `end_user_id`.
        room: URL name of its room, such as `memory_enduser`.
        label: Heading.
    """

    def column(row: Any) -> SafeString:
        found = getattr(row, path, None)
        if not found:
            return EMPTY
        url = reverse(f"admin:{room}_change", args=(quote(found),))
        return format_html('<a href="{}">{}</a>', url, found)

    column.__name__ = path
    return admin.display(description=label)(column)


PERSON = linked("end_user_id", "memory_enduser", label=_("person"))
