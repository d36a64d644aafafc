"""Forms that keep a row, and all it points at, inside one tenant."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import models
from django.forms.fields import InvalidJSONInput
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from governance.admin.text import label_of
from memory.errors import CredenceError


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why the database or the domain refused a form that had passed its own checks."""

    detail: str | Promise
    field: str | None = None


NEUTRAL_REFUSAL = Refusal(
    detail=_("These values can not be stored: one is taken already, or does not fit the others.")
)


def refusal_of(error: Exception) -> Refusal:
    """Return what a form may say about an error: our own words, never the database's."""
    if isinstance(error, CredenceError):
        return Refusal(detail=error.detail, field=getattr(error, "field", None))
    return NEUTRAL_REFUSAL


class ScopedChoiceField(forms.ModelChoiceField):  # type: ignore[type-arg]
    """A drop-down of walled rows, labelled for people."""

    def label_from_instance(self, obj: models.Model) -> str:
        """Return the label of a choice."""
        return label_of(obj)


class PlainJSONField(forms.JSONField):
    """JSON that PostgreSQL can store: without NUL and lone surrogates, and not too deep."""

    def to_python(self, value: Any) -> Any:
        """Return the parsed value.

        Raises:
            ValidationError: It is no JSON, or cannot be stored.
        """
        try:
            parsed = super().to_python(value)
            text = json.dumps(parsed, ensure_ascii=False)
            text.encode()
        except (RecursionError, UnicodeEncodeError):
            raise ValidationError(self.error_messages["invalid"], code="invalid") from None
        if "\\u0000" in text:
            raise ValidationError(self.error_messages["invalid"], code="invalid")
        return parsed

    def bound_data(self, data: Any, initial: Any) -> Any:
        """Return what was typed, as it was typed."""
        return initial if self.disabled else InvalidJSONInput(data or "")


class ScopedModelForm(forms.ModelForm):  # type: ignore[type-arg]
    """A form of a tenant's row: the tenant is chosen once, references stay inside it.

    `constraint_texts` says in words what a named check constraint wants: {name: (field, text)}.
    """

    refusal: ClassVar[Refusal | None] = None
    constraint_texts: ClassVar[dict[str, tuple[str, str | Promise]]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Limit every drop-down to the tenant of the row, once it has one."""
        super().__init__(*args, **kwargs)
        if self._is_new:
            return
        for field in self.fields.values():
            rows: Any = getattr(field, "queryset", None)
            if rows is not None and _has_tenant(rows.model):
                field.queryset = rows.filter(tenant_id=self.instance.tenant_id)  # type: ignore[attr-defined]

    @property
    def _is_new(self) -> bool:
        return bool(self.instance._state.adding)

    def clean(self) -> dict[str, Any]:
        """Refuse a move to another tenant, references over the fence, and what a save refused."""
        cleaned = super().clean() or self.cleaned_data
        tenant_id = self._tenant_id(cleaned)
        for name, value in list(cleaned.items()) if tenant_id else ():
            if (
                isinstance(value, models.Model)
                and getattr(value, "tenant_id", tenant_id) != tenant_id
            ):
                self.add_error(name, _("This belongs to another tenant."))
        if self.refusal is not None:
            self.add_error(self._field_named(self.refusal.field), str(self.refusal.detail))
        return cleaned

    def _tenant_id(self, cleaned: dict[str, Any]) -> str | None:
        if self._is_new:
            tenant = cleaned.get("tenant")
            return tenant.pk if tenant else None
        tenant_id: str = self.instance.tenant_id
        forged = [self.data.get(self.add_prefix(name)) for name in ("tenant", "tenant_id")]
        if any(value not in (None, tenant_id) for value in forged):
            self.add_error(None, _("A row can not be moved to another tenant."))
        return tenant_id

    def _field_named(self, name: str | None) -> str | None:
        """Return the form's field for the domain's name, where `x_id` is the field x."""
        found = (name or "").removesuffix("_id")
        return found if found in self.fields else None

    def _get_validation_exclusions(self) -> set[str]:
        # Unique names are unique per tenant: without the tenant Django would skip the check.
        exclude: set[str] = super()._get_validation_exclusions()  # type: ignore[misc]
        return exclude if "tenant" in self.errors else exclude - {"tenant"}

    def _update_errors(self, errors: ValidationError) -> None:
        # Named constraints would be told by their name: ours are told in words.
        named = errors.error_dict.pop(NON_FIELD_ERRORS, []) if hasattr(errors, "error_dict") else []
        super()._update_errors(errors)  # type: ignore[misc]
        for problem in named:
            self.add_error(*self._in_words(problem))

    def _in_words(self, problem: ValidationError) -> tuple[str | None, str]:
        text = "; ".join(problem.messages)
        for name, (field, words) in self.constraint_texts.items():
            if name in text:
                return (field if field in self.fields else None), str(words)
        names = (constraint.name for constraint in self.instance._meta.constraints)
        return None, str(NEUTRAL_REFUSAL.detail) if any(name in text for name in names) else text


def _has_tenant(model: type[models.Model]) -> bool:
    return any(field.name == "tenant" for field in model._meta.local_fields)
