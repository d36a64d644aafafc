"""What the tenant's vocabulary adds to a question: the entities it names, with their other names."""

from __future__ import annotations

from memory.retrieval.expansion import Expansion
from memory.retrieval.vocabulary import read_expansion
from memory.scope import Scope


def expansion_of(*, scope: Scope, text: str) -> Expansion:
    """Return the active entities of the scope's tenant that a question names.

    Inside the caller's transaction. Cost: one statement, two where it names any.
    """
    return read_expansion(scope=scope, text=text)
