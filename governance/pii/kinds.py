"""The kinds of what is personal, and the name of policy that says what is done about each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Group = Literal["pii_identity", "pii_contact", "pii_uncertain"]
Kind = Literal[
    "address", "bank_card", "company_code", "email", "iban", "id_card", "im_handle",
    "medical_card", "passport", "phone", "plate", "ssn",
]  # fmt: skip

GROUPS: Final[dict[Kind, Group]] = {
    "id_card": "pii_identity",
    "bank_card": "pii_identity",
    "passport": "pii_identity",
    "ssn": "pii_identity",
    "iban": "pii_identity",
    "company_code": "pii_identity",
    "medical_card": "pii_identity",
    "email": "pii_contact",
    "phone": "pii_contact",
    "plate": "pii_contact",
    "im_handle": "pii_contact",
    "address": "pii_contact",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something personal: its kind, the name of policy it falls under, its characters.

    `start` and `end` are Python character offsets of the text, end exclusive. The group is
    `pii_uncertain` where it looks like one and is called one, but fails its checksum.
    """

    kind: Kind
    group: Group
    start: int
    end: int
