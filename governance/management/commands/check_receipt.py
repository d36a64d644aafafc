"""`manage.py check_receipt FILE [--json]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from governance import ledger
from governance.erasure.receipts import sha256_of
from governance.management.base import CredenceCommand
from governance.models.erasure import Erasure
from memory.rls import maintenance_transaction


class Command(CredenceCommand):
    """Says whether a receipt of an erasure is the one that this instance made."""

    help = "Compute a receipt's hash, and compare it with the database and the ledger."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the file; a dash for standard input."""
        super().add_arguments(parser)
        parser.add_argument("file", help="JSON: a receipt, or an erasure as the API shows it")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print what was compared; exit code 1 where something does not fit."""
        receipt = _receipt(options["file"])
        computed, erasure_id = sha256_of(receipt), str(receipt.get("erasure", ""))
        stored = _stored(erasure_id)
        place = ledger.position_of(erasure_id=erasure_id)
        told = receipt.get("ledger")
        result = {
            "erasure": erasure_id,
            "sha256": computed,
            "is_as_stored": computed == stored,
            "is_in_ledger": bool(place and told and place == (told["line"], told["sha256"])),
        }
        self.show(options, result)
        if not (result["is_as_stored"] and result["is_in_ledger"]):
            raise CommandError("This is not the receipt that was made here, or not all of it.")


def _receipt(name: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        found: dict[str, Any] = json.loads(text)
    except (OSError, ValueError) as error:
        raise CommandError(f"{name} can not be read as JSON.") from error
    if not isinstance(found, dict):
        raise CommandError(f"{name} holds no receipt.")
    inner = found.get("receipt")
    return inner if isinstance(inner, dict) else found


def _stored(erasure_id: str) -> str | None:
    with maintenance_transaction() as alias:
        rows = Erasure.objects.using(alias).unscoped(reason="a receipt names its erasure by id")
        return rows.filter(pk=erasure_id).values_list("receipt_sha256", flat=True).first()
