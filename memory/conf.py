"""The one typed place that reads django.conf.settings for the product's own settings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.conf import settings


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseRoles:
    """Names of the database roles of DESIGN section 3."""

    owner: str
    app: str
    maint: str
    lookup: str


def database_roles() -> DatabaseRoles:
    """Return the role names, which come from the users of the three database URLs."""
    return DatabaseRoles(**settings.CREDENCE_DATABASE_ROLES)


def key_peppers() -> dict[int, str]:
    """Return the peppers of API keys by version; the highest version signs new keys."""
    peppers: dict[int, str] = settings.CREDENCE_KEY_PEPPERS
    return peppers


def encryption_keys() -> tuple[str, ...]:
    """Return the keys that seal provider keys, newest first."""
    return tuple(settings.CREDENCE_ENCRYPTION_KEYS)


def allowed_provider_hosts() -> tuple[str, ...]:
    """Return the hosts that providers may be at: the operator's list."""
    return tuple(settings.CREDENCE_PROVIDER_HOSTS)


def lane_count() -> int:
    """Return how many serial memory lanes there are; one by default."""
    return int(settings.CREDENCE_MEMORY_LANES)


def run_lease_seconds() -> int:
    """Return how long a run may go without finishing before the sweep ends it."""
    return int(settings.CREDENCE_RUN_LEASE_SECONDS)


def job_lease_seconds() -> int:
    """Return how long a claimed job may go without finishing before it is claimed again."""
    return int(settings.CREDENCE_JOB_LEASE_SECONDS)


def job_timeout_seconds() -> int:
    """Return how long one job may work."""
    return int(settings.CREDENCE_JOB_TIMEOUT_SECONDS)


def heartbeat_seconds() -> int:
    """Return how often lanes show life and the sweep looks for due work."""
    return int(settings.CREDENCE_HEARTBEAT_SECONDS)


def stream_heartbeat_seconds() -> float:
    """Return how often a silent stream sends a comment."""
    return float(settings.CREDENCE_STREAM_HEARTBEAT_SECONDS)


def var_folder() -> Path:
    """Return the data folder of this instance."""
    return Path(settings.CREDENCE_VAR)


def web_threads() -> int:
    """Return how many database threads, and so connections, a web process has."""
    return int(settings.CREDENCE_WEB_THREADS)


def body_limit_bytes() -> int:
    """Return how long a request body may be."""
    return int(settings.CREDENCE_BODY_BYTES)


def document_body_limit_bytes() -> int:
    """Return how long a request body may be that carries a document."""
    return int(settings.CREDENCE_DOCUMENT_BODY_BYTES)


def recall_cache_bytes() -> int:
    """Return how many bytes of copies of shelves a process keeps."""
    return int(settings.CREDENCE_RECALL_CACHE_MB * 1_000_000)


def default_embedding_model() -> str:
    """Return the shipped embedding model that tenants begin with; `none` switches vectors off."""
    return str(settings.CREDENCE_EMBEDDING_MODEL)


def erasure_ledger_path() -> Path:
    """Return the file outside the database that remembers erasures and holds (JSON lines)."""
    return Path(settings.CREDENCE_ERASURE_LEDGER)


def audit_heads_path() -> Path:
    """Return the file outside the database that the heads of audit chains are written to."""
    return Path(settings.CREDENCE_AUDIT_HEADS)


def trusted_proxies() -> int:
    """Return how many proxies of the operator's own add to X-Forwarded-For."""
    return int(settings.CREDENCE_TRUSTED_PROXIES)


def wrong_keys_per_minute() -> int:
    """Return how many wrong API keys an address may send in a minute; 0 is no limit."""
    return int(settings.CREDENCE_WRONG_KEYS_PER_MINUTE)


def key_requests_per_minute() -> int:
    """Return how many requests an API key may make in a minute; 0 is no limit."""
    return int(settings.CREDENCE_KEY_REQUESTS_PER_MINUTE)


def login_cool_off() -> timedelta:
    """Return how long a name and address stay locked out of the admin after wrong passwords."""
    cool_off: timedelta = settings.AXES_COOLOFF_TIME
    return cool_off
