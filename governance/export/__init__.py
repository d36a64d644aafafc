"""Everything that is known of a person, as JSON lines: the map, the lines, and links to them."""

from __future__ import annotations

from governance.export.lines import Export, export_person
from governance.export.links import LinkNotFoundError, NewLink, make_link, open_link, revoke_link

__all__ = [
    "Export",
    "LinkNotFoundError",
    "NewLink",
    "export_person",
    "make_link",
    "open_link",
    "revoke_link",
]
