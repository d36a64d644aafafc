"""What the page's forms take, checked as the API's bodies are."""

from __future__ import annotations

from typing import Any, TypeVar

from django import forms
from django.http import HttpRequest

from memory.errors import InvalidInputError
from threads.api.strict_json import is_clean_text

MOST_INPUT_CHARS = 200_000
F = TypeVar("F", bound=forms.Form)


class Text(forms.CharField):
    """Words that a database can keep: no NUL, no lone surrogate."""

    def validate(self, value: Any) -> None:
        """Refuse what can not be kept.

        Raises:
            ValidationError: It holds such a character.
        """
        super().validate(value)
        if self.required and not value.strip():
            raise forms.ValidationError(self.error_messages["required"])
        if value and not is_clean_text(value):
            raise forms.ValidationError("This text holds characters that can not be kept.")


class QuestionForm(forms.Form):
    """A question, in which thread, and on whose artefacts it goes on."""

    input = Text(max_length=MOST_INPUT_CHARS, strip=False)
    thread_id = Text(max_length=255, required=False)
    continues = Text(max_length=255, required=False)


class TitleForm(forms.Form):
    """A thread's new title."""

    title = Text(max_length=200)


class FactForm(forms.Form):
    """A fact in other words, or a new one."""

    fact = Text(max_length=500, required=False)
    may_evict = forms.BooleanField(required=False)


class TermForm(forms.Form):
    """A term put right."""

    term = Text(max_length=200)
    wrong = Text(max_length=500, required=False)
    entity_type = Text(max_length=64)


class SeatForm(forms.Form):
    """Which agent to talk to, and for whom if not for oneself."""

    agent_id = Text(max_length=64)
    user_id = Text(max_length=255, required=False)


def checked(form: type[F], request: HttpRequest) -> dict[str, Any]:
    """Return what was sent.

    Raises:
        InvalidInputError: It does not fit; the first field that does not is named.
    """
    filled = form(request.POST)
    if not filled.is_valid():
        field, errors = next(iter(filled.errors.items()))
        raise InvalidInputError(str(errors[0]), field=field)
    return dict(filled.cleaned_data)
