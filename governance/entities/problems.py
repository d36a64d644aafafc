"""What can stand in the way of a correction or of a decision about entities."""

from __future__ import annotations

from memory.errors import ConflictError, CredenceError


class NotRememberedError(CredenceError):
    """The gate lets nothing of this into long-term memory."""

    code = "not_admitted"


class NameTakenError(ConflictError):
    """Another entity, or another candidate that waits, has this name already."""

    code = "name_taken"


class CanNotMergeError(ConflictError):
    """Only two entities of which one is active, and neither holds the other, become one."""

    code = "can_not_merge"


class NotMergedError(ConflictError):
    """This entity is not merged into another one, or was not when it should be undone."""

    code = "not_merged"


class MergedEntityError(ConflictError):
    """This entity is merged into another one; undo that, or change the other."""

    code = "merged_entity"


class TooManyAliasesError(ConflictError):
    """An entity has at most 200 aliases."""

    code = "too_many_aliases"
