"""The small forms of decisions: a reason, or nothing at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib.admin.helpers import ActionForm
from django.utils.translation import gettext_lazy as _

from governance.decisions import MOST_REASON_CHARACTERS


class DecisionForm(forms.Form):
    """What a decision asks besides the click: nothing, unless a subclass says what."""

    def fill(self, row: Any, evidence: Mapping[str, Any]) -> None:
        """Show what the row, and what its page shows, say now; for forms that depend on it."""


class ReasonForm(DecisionForm):
    """A decision that owes a reason."""

    reason = forms.CharField(
        label=_("Reason"),
        max_length=MOST_REASON_CHARACTERS,
        strip=True,
        widget=forms.TextInput(attrs={"class": "vTextField"}),
    )


class ReasonBar(ActionForm):
    """The bar of actions on selected rows, with room for a reason."""

    reason = forms.CharField(
        required=False, max_length=MOST_REASON_CHARACTERS, label=_("Reason for rejecting")
    )
