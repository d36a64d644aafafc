"""`manage.py index_vectors --tenant SLUG | --all --model-dimensions N`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import connections
from psycopg import sql

from governance.management.base import CredenceCommand
from governance.tenants import find_tenant
from memory.retrieval.nearest import index_names

# Reading and writing goes on meanwhile. A row of another length is not in the index at all, since
# the cast would fail on it.
# What HNSW takes of halfvec. Source: the README of pgvector.
_MOST_DIMENSIONS = 4_000
_MAKE = sql.SQL(
    "CREATE INDEX CONCURRENTLY {name} ON memory_embedding"
    " USING hnsw ((vector::halfvec({n})) halfvec_cosine_ops)"
    " WHERE status = 'ready' AND vector_dims(vector) = {n}{tenant}"
)
_OF_TENANT = sql.SQL(" AND tenant_id = {tenant}")
_DROP = sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {name}")


class Command(CredenceCommand):
    """Makes an HNSW index for shelves too large to compare whole, or makes it anew."""

    help = "Index the vectors of a tenant, or of all, for shelves past the exact search's rows."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take whose vectors, and how long they are."""
        super().add_arguments(parser)
        whose = parser.add_mutually_exclusive_group(required=True)
        whose.add_argument("--tenant", metavar="SLUG", help="the tenant's slug")
        whose.add_argument("--all", action="store_true", help="one index for all tenants")
        parser.add_argument("--model-dimensions", type=int, required=True, metavar="N")

    def handle(self, *args: Any, **options: Any) -> None:
        """Drop what there is under the name, a broken one too, and build."""
        dimensions = int(options["model_dimensions"])
        if not 1 <= dimensions <= _MOST_DIMENSIONS:
            raise CommandError(f"An index takes vectors of 1 to {_MOST_DIMENSIONS} dimensions.")
        tenant_id = None if options["all"] else find_tenant(slug=options["tenant"]).id
        shared, own = index_names(dimensions=dimensions, tenant_id=tenant_id or "_")
        name = shared if tenant_id is None else own
        of_tenant = _OF_TENANT.format(tenant=sql.Literal(tenant_id)) if tenant_id else sql.SQL("")
        with connections["owner"].cursor() as cursor:
            cursor.execute(_DROP.format(name=sql.Identifier(name)))
            statement = _MAKE.format(
                name=sql.Identifier(name), n=sql.Literal(dimensions), tenant=of_tenant
            )
            cursor.execute(statement)
        self.show(options, {"index": name, "dimensions": dimensions})
