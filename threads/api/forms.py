"""Reading a form that carries a file: one file, each field once, nothing taken as a path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any, Final, cast

from django.core.exceptions import RequestDataTooBig, TooManyFilesSent
from django.core.files.uploadhandler import MemoryFileUploadHandler
from django.http import HttpRequest
from django.http.multipartparser import MultiPartParser, MultiPartParserError
from rest_framework.parsers import BaseParser

from memory.errors import InvalidInputError
from threads.api.requests import django_request
from threads.api.strict_json import InvalidTextError, is_clean_text

_MISREAD: Final = "\N{REPLACEMENT CHARACTER}"


class InvalidFormError(InvalidInputError):
    """The body is no form, or one of its parts is there twice."""

    code = "bad_request"


class InMemory(MemoryFileUploadHandler):
    """Keeps files in memory whatever their size: the body's bound is theirs, and it is read already."""

    def handle_raw_input(
        self,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Take every file."""
        self.activated = True


class FormParser(BaseParser):
    """Takes `multipart/form-data`; the answer maps names to texts, and to files."""

    media_type = "multipart/form-data"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the fields and files of the form.

        Raises:
            InvalidFormError: It is broken or cut off, has too many parts, or one of them twice.
            InvalidTextError: A field is not UTF-8, or holds a NUL.
        """
        request = django_request((parser_context or {})["request"])
        meta = request.META | {"CONTENT_TYPE": media_type}
        if not _is_whole(request):
            raise InvalidFormError("The form has no end.")
        try:
            fields, files = MultiPartParser(meta, cast(Any, stream), [InMemory()], "utf-8").parse()
        except (MultiPartParserError, RequestDataTooBig, TooManyFilesSent, ValueError) as error:
            raise InvalidFormError from error
        found: dict[str, Any] = {}
        for name, values in (*fields.lists(), *files.lists()):
            if len(values) > 1 or name in found:
                raise InvalidFormError(field=str(name)[:64])
            found[str(name)] = values[0]
        _check_texts(found)
        return found


def _is_whole(request: HttpRequest) -> bool:
    """Say whether a form ends with its last boundary: a file that was cut off is not the file."""
    boundary = str((request.content_params or {}).get("boundary", ""))
    return request.body.rstrip(b"\r\n").endswith(f"--{boundary}--".encode())


def _check_texts(found: Mapping[str, Any]) -> None:
    for name, value in found.items():
        for text in (name, value) if isinstance(value, str) else (name,):
            if not is_clean_text(text) or _MISREAD in text:
                raise InvalidTextError(field=name[:64])
