"""The forms of erasures: how much is to go, and the words that confirm that it is meant."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from governance.erasure.problems import UnknownKindsError
from governance.export.service import KINDS
from governance.models import ErasureMode

MODES = (
    (ErasureMode.ALL, _("Everything of the person")),
    (ErasureMode.TAGGED, _("What is tagged as personal in their texts")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How much is to go.

    Attributes:
        kinds: Only these kinds of what is personal; empty for all. With mode tagged.
        before_at: Only texts from before; with mode tagged.
    """

    mode: ErasureMode
    kinds: tuple[str, ...] = ()
    before_at: datetime | None = None

    def values(self) -> dict[str, Any]:
        """Return it as the domain takes it."""
        return {"mode": self.mode, "kinds": self.kinds, "before_at": self.before_at}

    def __str__(self) -> str:
        """Return a text that is the same for the same choice, and for no other."""
        at = self.before_at.astimezone(UTC).isoformat() if self.before_at else ""
        return " ".join((self.mode.value, ",".join(sorted(self.kinds)), at))


class ChoiceForm(forms.Form):
    """How much is to go."""

    mode = forms.ChoiceField(label=_("What goes"), choices=MODES)
    kinds = forms.MultipleChoiceField(
        label=_("Only these kinds (with tagged)"),
        choices=[(kind, kind) for kind in KINDS],
        required=False,
    )
    before_at = forms.DateTimeField(
        label=_("Only texts from before, UTC (with tagged)"), required=False
    )

    def clean(self) -> dict[str, Any]:
        """Refuse kinds and a time beside an erasure of everything."""
        values = super().clean() or self.cleaned_data
        is_narrowed = bool(values.get("kinds") or values.get("before_at"))
        if values.get("mode") == ErasureMode.ALL and is_narrowed:
            self.add_error("mode", _now(UnknownKindsError().detail))
        return values

    def choice(self) -> Choice:
        """Return what was chosen; for a form that is valid."""
        values = self.cleaned_data
        return Choice(
            mode=ErasureMode(values["mode"]),
            kinds=tuple(values["kinds"]),
            before_at=values["before_at"],
        )


class ErasureForm(ChoiceForm):
    """One person: how much is to go, and the person's id as the word that it is meant."""

    confirmed_id = forms.CharField(label=_("The person's id, to confirm"), max_length=40)


class TypedAnew(forms.TextInput):
    """A box that is empty whenever its form is shown once more, so that nobody confirms by habit."""

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        """Return what the template takes, without the value."""
        return super().get_context(name, None, attrs)


class ErasuresForm(ChoiceForm):
    """Many persons: how much is to go, and how many persons as the word that it is meant."""

    confirmed_number = forms.CharField(
        label=_("How many persons are to be erased, to confirm"),
        max_length=6,
        required=False,
        widget=TypedAnew(attrs={"autocomplete": "off", "inputmode": "numeric"}),
    )

    def typed_number(self) -> int | None:
        """Return the number that was typed, in digits of any script; for a form that is valid."""
        text = str(self.cleaned_data["confirmed_number"]).strip()
        return int(text) if text.isdecimal() else None
