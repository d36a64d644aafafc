"""Reading a person's rows for texts that tell whether something of them is left elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import re2
from django.apps import apps
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Cast
from pgvector.django import HalfVectorField

from governance.erasure.decoding import fold
from governance.erasure.phrases import phrases_of, strings_in
from governance.models.erasure import Erasure
from governance.pii import find_pii
from memory.models import EndUser
from memory.models.base import TenantModel

_KEY_FIELDS: Final = frozenset({"external_id", "external_key", "idempotency_key"})
_TIMES: Final = ("created_at", "said_at", "at")
_ROWS_EACH_END: Final = 8
_PHRASES_A_COLUMN: Final = 6
_KEYS_A_COLUMN: Final = 8
_TAGGED_ROWS: Final = 200
_MOST_VALUES: Final = 80
_LEAST_BYTES: Final = 48
_BYTES: Final = 24
_FEWEST_NUMBERS: Final = 6
_NUMBERS: Final = 8
_SHARED_SECONDS: Final = 20.0
# What staff and clients of the tenant wrote for everybody, besides rows that name no person.
_SHARED: Final = ("threads.Agent", "governance.TenantPolicy", "memory.BehaviourSample")
_WHY: Final = "the needles of one person's erasure"


@dataclass(slots=True, kw_only=True)
class Sample:
    """What was read of one person.

    Attributes:
        names: What the tenant calls the person.
        keys: The tenant's own keys of the person's threads, turns and documents.
        values: What is tagged as personal in the person's texts.
        numbers: Beginnings of vectors and lists of numbers, as PostgreSQL prints them.
        hexes: Pieces of binary columns, as hexadecimal digits.
    """

    names: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    phrases: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    hexes: list[str] = field(default_factory=list)


def models_of_persons() -> Iterator[tuple[type[TenantModel], str]]:
    """Yield each model whose rows name a person, and the column that does."""
    for model in apps.get_models():
        if not issubclass(model, TenantModel):
            continue
        column = model.walls.user
        if column is None and any(one.name == "end_user" for one in model._meta.fields):
            column = "end_user_id"
        if column is not None:
            yield model, column


def sample_person(*, alias: str, erasure: Erasure) -> Sample:
    """Read the person's rows in every table; see `needles.collect`."""
    sample = Sample()
    for model, column in models_of_persons():
        rows = _rows(model, alias).filter(**{column: erasure.subject_id})
        if model is EndUser:
            people = rows.filter(erasing_at__isnull=True)
            sample.names += people.values_list("user_id", flat=True)
            continue
        if model.personal:
            _sample_columns(model, rows, sample)
            _sample_values(model, rows, erasure, sample)
    sample.values = sample.values[:_MOST_VALUES]
    return sample


def _rows(model: type[TenantModel], alias: str) -> models.QuerySet[Any]:
    return model.objects.using(alias).unscoped(reason=_WHY)


def _sample_columns(model: type[TenantModel], rows: models.QuerySet[Any], sample: Sample) -> None:
    """Take from the oldest and from the newest rows of one table."""
    columns = [
        one for one in model._meta.fields if one.name in model.personal and one.name != "pii"
    ]
    shown = {f"shown_{one.name}": _as_read(one) for one in columns}
    picked = rows.annotate(**shown)
    for column in columns:
        name = f"shown_{column.name}"
        values = picked.filter(**{f"{column.name}__isnull": False}).values_list(name, flat=True)
        both = chain(
            values.order_by("-pk")[:_ROWS_EACH_END], values.order_by("pk")[:_ROWS_EACH_END]
        )
        _add(column, list(both), sample)


def _as_read(column: models.Field[Any, Any]) -> Any:
    if isinstance(column, HalfVectorField):
        return Cast(column.name, models.TextField())
    return models.F(column.name)


def _add(column: models.Field[Any, Any], values: list[Any], sample: Sample) -> None:
    if column.name in _KEY_FIELDS:
        sample.keys += list(dict.fromkeys(values))[:_KEYS_A_COLUMN]
    elif isinstance(column, models.BinaryField):
        sample.hexes += _distinct(_hex_piece(bytes(value)) for value in values)
    elif isinstance(column, HalfVectorField):
        sample.numbers += _distinct(_first_numbers(value) for value in values)
    elif isinstance(column, ArrayField):
        joined = (",".join(map(str, value[:_NUMBERS])) for value in values)
        sample.numbers += _distinct(one for one in joined if one.count(",") >= _FEWEST_NUMBERS)
    else:
        texts = chain.from_iterable(strings_in(value) for value in values)
        sample.phrases += _distinct(chain.from_iterable(map(phrases_of, texts)))


def _distinct(found: Iterable[str]) -> list[str]:
    kept: dict[str, None] = {}
    for one in found:
        if one:
            kept[one] = None
        if len(kept) >= _PHRASES_A_COLUMN:
            break
    return list(kept)


def _hex_piece(raw: bytes) -> str:
    """Return the middle of a blob, unless it is short or says nothing."""
    start = (len(raw) - _BYTES) // 2
    piece = raw[start : start + _BYTES]
    return piece.hex() if len(raw) >= _LEAST_BYTES and len(set(piece)) >= _NUMBERS else ""


def _first_numbers(vector: str) -> str:
    numbers = vector.strip("[]").split(",")[:_NUMBERS]
    return ",".join(numbers) if len(set(numbers)) >= _FEWEST_NUMBERS else ""


def _sample_values(
    model: type[TenantModel], rows: models.QuerySet[Any], erasure: Erasure, sample: Sample
) -> None:
    """Take what is personal in the texts of rows that are tagged, as far as the erasure goes."""
    names = {one.name for one in model._meta.fields}
    if "pii" not in names:
        return
    tagged = rows.exclude(pii=[]).order_by("-pk")
    texts = [
        one.name
        for one in model._meta.fields
        if isinstance(one, models.TextField | models.CharField) and one.name in model.personal
    ]
    moment = next((name for name in _TIMES if name in names), None)
    if erasure.before_at is None or moment is None:
        sample.values += _values_in(tagged.values_list(*texts), erasure)
        return
    # What stands in a later text too may stay, so its absence proves nothing.
    before = tagged.filter(**{f"{moment}__lt": erasure.before_at}).values_list(*texts)
    after = tagged.filter(**{f"{moment}__gte": erasure.before_at}).values_list(*texts)
    kept = set(_values_in(after, erasure))
    sample.values += [one for one in _values_in(before, erasure) if one not in kept]


def _values_in(rows: models.QuerySet[Any], erasure: Erasure) -> list[str]:
    found: dict[str, None] = {}
    for row in rows[:_TAGGED_ROWS]:
        for text in row:
            for one in find_pii(text or ""):
                if not erasure.kinds or {one.kind, one.group} & set(erasure.kinds):
                    found[str(text)[one.start : one.end]] = None
    return list(found)


def shared_among(*, alias: str, erasure: Erasure, texts: list[str]) -> frozenset[str]:
    """Return those of some folded texts that also stand in what the tenant wrote for everybody.

    They are no sign of the person. What came from one of the person's own runs does not count.
    Ends after 20 seconds; what was not compared by then stays a needle.
    """
    return _found_in(_shared_rows(alias, erasure), texts)


def corrected_since(*, alias: str, erasure: Erasure, texts: list[str]) -> frozenset[str]:
    """Return those of some folded texts that stand in corrections other persons have made by now.

    What somebody else has put right in the meantime is no remains, wherever it stands. Cost: one
    query; ends as `shared_among`.
    """
    return _found_in(_corrected_by_others(alias, erasure), texts)


def _found_in(rows: Iterator[tuple[Any, ...]], texts: list[str]) -> frozenset[str]:
    if not texts:
        return frozenset()
    options = re2.Options()
    options.literal = True
    options.max_mem = 256 << 20
    finder = re2.Set.SearchSet(options)
    for text in texts:
        finder.Add(text)
    finder.Compile()
    until = time.monotonic() + _SHARED_SECONDS
    found: set[str] = set()
    for row in rows:
        joined = fold("\n".join(chain.from_iterable(strings_in(value) for value in row)))
        found |= {texts[index] for index in finder.Match(joined) or ()}
        if time.monotonic() > until:
            break
    return frozenset(found)


def _shared_rows(alias: str, erasure: Erasure) -> Iterator[tuple[Any, ...]]:
    own = erasure.subject_id
    for model, _column in models_of_persons():
        names = _names(model)
        path = next((one for one in ("run", "document") if one in names), None)
        if path is None or not _can_name_nobody(model):
            continue
        rows = _rows(model, alias).filter(end_user__isnull=True, tenant_id=erasure.tenant_id)
        of_run = "run__end_user_id" if path == "run" else "document__run__end_user_id"
        yield from _texts(model, rows.exclude(**{of_run: own}))
    yield from _corrected_by_others(alias, erasure)
    for label in _SHARED:
        shared: type[TenantModel] = apps.get_model(label)
        yield from _texts(shared, _rows(shared, alias).filter(tenant_id=erasure.tenant_id))


def _corrected_by_others(alias: str, erasure: Erasure) -> Iterator[tuple[Any, ...]]:
    """Yield terms that others have corrected as well: theirs, too, and staying in the vocabulary."""
    corrections: type[TenantModel] = apps.get_model("governance.Correction")
    theirs = _rows(corrections, alias).filter(tenant_id=erasure.tenant_id)
    yield from _texts(corrections, theirs.exclude(end_user_id=erasure.subject_id))


def _can_name_nobody(model: type[models.Model]) -> bool:
    return any(one.name == "end_user" and one.null for one in model._meta.fields)


def _names(model: type[models.Model]) -> set[str]:
    return {one.name for one in model._meta.fields}


def _texts(model: type[models.Model], rows: models.QuerySet[Any]) -> Iterator[tuple[Any, ...]]:
    kinds = (models.TextField, models.CharField, models.JSONField)
    names = [one.name for one in model._meta.fields if isinstance(one, kinds)]
    yield from rows.values_list(*names).iterator(chunk_size=200)
