"""The one parser of request bodies."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.parsers import BaseParser

from threads.api.strict_json import InvalidJSONError, read_object


class StrictJSONParser(BaseParser):
    """Takes `application/json` in UTF-8 and nothing else; see `threads.api.strict_json`."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the object in the body; an empty body is an empty object.

        Raises:
            UnsupportedMediaType: The content type names another charset than UTF-8.
            InvalidJSONError: As `threads.api.strict_json.read_object`; also for a byte order mark.
            InvalidTextError: As there.
        """
        _check_charset(media_type or "")
        raw: bytes = stream.read()
        if raw.startswith(codecs.BOM_UTF8):
            raise InvalidJSONError("The body begins with a byte order mark.")
        return read_object(raw) if raw.strip(b" \t\r\n") else {}


def _check_charset(media_type: str) -> None:
    for parameter in media_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in (
            "utf-8",
            "utf8",
        ):
            raise UnsupportedMediaType(media_type[:100])
