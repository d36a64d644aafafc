"""The only writer of what is recalled: shelves, their entries, vectors, and the rows these lead to.

Each function writes inside the caller's scoped transaction. Whoever writes to a shelf holds its
row's lock until that transaction ends, so no reader of a version can miss a row that commits late.
Whoever asks for jobs in the same transaction does so first: workers lock a job before a shelf.
"""

from __future__ import annotations

from memory.store.documents import NewDocument, add_document
from memory.store.entries import NewEntry, add_entries, entry_ids_of, note_uses, remove_entries
from memory.store.removal import remove_recall
from memory.store.repacking import repack
from memory.store.shelves import Owner, ensure_shelf, find_shelf
from memory.store.texts import NewChunk, NewRecall, Origin, add_chunks, add_recall
from memory.store.vectors import NewVector, put_vectors

__all__ = [
    "NewChunk",
    "NewDocument",
    "NewEntry",
    "NewRecall",
    "NewVector",
    "Origin",
    "Owner",
    "add_chunks",
    "add_document",
    "add_entries",
    "add_recall",
    "ensure_shelf",
    "entry_ids_of",
    "find_shelf",
    "note_uses",
    "put_vectors",
    "remove_entries",
    "remove_recall",
    "repack",
]
