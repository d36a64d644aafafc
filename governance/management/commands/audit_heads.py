"""`manage.py audit_heads`: print the head of each chain, to be kept elsewhere."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from governance.management.base import AnyTenantCommand
from governance.sealing import heads_of


class Command(AnyTenantCommand):
    """One line of JSON a tenant, as `verify_audit --heads` reads them."""

    help = "Print how far each tenant's audit chain has come, as JSON lines."

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the heads."""
        wanted = {scope.tenant_id for scope in self.scopes(options)}
        for head in heads_of():
            if head.tenant_id in wanted:
                self.stdout.write(json.dumps(asdict(head)))
