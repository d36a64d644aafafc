"""Making and suspending tenants, their people, and finding persons by the tenant's own id."""

from __future__ import annotations

import unicodedata
from datetime import datetime

import re2
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from governance import access, audit
from governance.permissions import Role
from governance.tombstones import next_epoch
from memory.errors import ConflictError, InvalidInputError, NotFoundError
from memory.ids import is_id, new_id
from memory.models import EndUser, Tenant
from memory.rls import maintenance_transaction, scoped_transaction
from memory.scope import Scope

_SLUG = re2.compile(r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")
_CONTROL = re2.compile(r"[\x00-\x1f\x7f-\x9f]")


class ReservedUserIdError(InvalidInputError):
    """A user_id has 1 to 255 characters, no control characters, and not the shape of our ids."""

    code = "reserved_user_id"


class SlugTakenError(ConflictError):
    """A tenant of that slug exists."""

    code = "slug_taken"


def create_tenant(*, slug: str, name: str, now: datetime, actor: str) -> Tenant:
    """Create a tenant with its roles, in a transaction of its own.

    Raises:
        InvalidInputError: The slug is not made of a-z, 0-9 and inner dashes.
        SlugTakenError: It exists.
    """
    if not _SLUG.match(slug):
        raise InvalidInputError("A slug is made of a-z, 0-9 and inner dashes.", field="slug")
    tenant = Tenant(id=new_id("tn"), slug=slug, name=name or slug, created_at=now)
    scope = Scope(tenant_ids=(tenant.id,), principal_id=actor)
    try:
        with scoped_transaction(scope):
            tenant.save(force_insert=True)
            access.create_roles(tenant=tenant)
            audit.record(
                scope=scope,
                action="tenant_created",
                target_kind="tenant",
                target_id=tenant.id,
                now=now,
            )
    except IntegrityError as error:
        raise SlugTakenError from error
    return tenant


def create_staff(
    *, scope: Scope, username: str, password: str | None, role: Role, now: datetime
) -> User:
    """Create a member of staff, or give an existing one a further role; audited.

    An existing person's password stays as it is.
    """
    with scoped_transaction(scope):
        account, is_new = User.objects.get_or_create(username=username)
        if is_new:
            account.set_password(password)
        account.is_staff = True
        account.save()
        access.join_role(account=account, tenant_id=scope.tenant_id, role=role)
        audit.record(
            scope=scope,
            action="staff_role_granted",
            target_kind="staff",
            target_id=str(account.pk),
            now=now,
            detail={"role": str(role)},
        )
    return account


def check_user_id(user_id: str) -> None:
    """Let pass a usable person id of a tenant.

    Raises:
        ReservedUserIdError: It is empty, too long, holds control characters or half a character, or
            looks like our ids.
    """
    if any("\ud800" <= sign <= "\udfff" for sign in user_id):
        raise ReservedUserIdError(field="user_id")
    shaped = is_id(user_id.lower())
    if not 1 <= len(user_id) <= 255 or _CONTROL.search(user_id) or shaped or not user_id.strip():
        raise ReservedUserIdError(field="user_id")


def same_in_any_form(name: str) -> str:
    """Return a name in the form that it is stored and looked for in: é is one letter or two (NFC)."""
    return unicodedata.normalize("NFC", name)


def find_end_user(*, scope: Scope, user_id: str) -> EndUser | None:
    """Return the person with this tenant-given or `usr_` id, never creating one. Cost: one query.

    Who is being erased is not there any more.
    """
    user_id = same_in_any_form(user_id)
    rows = EndUser.objects.in_scope(scope).filter(erasing_at__isnull=True)
    if is_id(user_id, prefix="usr"):
        return rows.filter(pk=user_id).first()
    return rows.filter(user_id=user_id).first()


def ensure_end_user(*, scope: Scope, user_id: str, now: datetime) -> EndUser:
    """Return the person with this tenant-given id, created on first write.

    Fifty first messages at once make one person: the unique key decides, inside a savepoint so that
    the caller's transaction lives on. Who comes back after an erasure is a new person of a later
    epoch. Cost: one query, three more for a new person.

    Raises:
        ReservedUserIdError: The id can not be a tenant's own.
        ForbiddenError: The scope names another person already.
    """
    user_id = same_in_any_form(user_id)
    if not is_id(user_id, prefix="usr"):
        check_user_id(user_id)
    found = find_end_user(scope=scope, user_id=user_id)
    if found is not None:
        return found
    if scope.user_id is not None:
        raise access.ForbiddenError("This key is limited to another user.")
    check_user_id(user_id)
    person = EndUser(
        tenant_id=scope.tenant_id,
        user_id=user_id,
        epoch=next_epoch(scope=scope, user_id=user_id),
        created_at=now,
    )
    try:
        with transaction.atomic():
            person.save(force_insert=True)
    except IntegrityError:
        return EndUser.objects.in_scope(scope).get(user_id=user_id)
    return person


def find_tenant(*, slug: str) -> Tenant:
    """Return the tenant of a slug, for commands: read as role maint. Cost: one query.

    Raises:
        NotFoundError: There is none.
    """
    with maintenance_transaction() as alias:
        rows = Tenant.objects.using(alias).unscoped(reason="a command names its tenant by slug")
        found = rows.filter(slug=slug).first()
    if found is None:
        raise NotFoundError(f"There is no tenant named {slug!r}.")
    return found
