"""Errors of the local launcher.

LocalPostgresError
├── PostgresStartError      the server cannot be made, started or stopped; says why
├── PostgresVersionError    the data belongs to another major version
└── PostgresForeignError    the folder holds something this launcher did not make
"""

from __future__ import annotations


class LocalPostgresError(Exception):
    """Root of everything the launcher raises."""


class PostgresStartError(LocalPostgresError):
    """The server cannot be made, started or stopped."""


class PostgresVersionError(LocalPostgresError):
    """The data folder belongs to another major version than the one asked for."""


class PostgresForeignError(LocalPostgresError):
    """The data folder holds something this launcher did not make, so it is left alone."""
