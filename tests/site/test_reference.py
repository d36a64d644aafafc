"""The reference of the API: every operation of the real document, with examples that it would take."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest
from drf_spectacular.generators import SchemaGenerator
from jsonschema_rs import Draft202012Validator

from docs.site import examples, reference
from docs.site.schemas import Field, Schemas

METHODS = ("get", "post", "put", "patch", "delete")


@cache
def document() -> dict[str, Any]:
    made = SchemaGenerator().get_schema(request=None, public=True)
    plain: dict[str, Any] = json.loads(json.dumps(made, default=str))
    return plain


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, told)
        for path, methods in document()["paths"].items()
        for method, told in methods.items()
        if method in METHODS
    ]


@cache
def pages() -> dict[str, str]:
    return reference.pages(document())


@pytest.mark.req("E03")
def test_every_operation_has_a_section_with_its_path_scope_and_curl_line() -> None:
    assert len(operations()) > 80
    for method, path, told in operations():
        page = pages()[f"{told['tags'][0].lower()}.md"]
        anchor = f"(op-{told['operationId'].replace('_', '-')})="
        assert page.count(f"{anchor}\n") == 1, path
        section = page.split(f"{anchor}\n")[1].split("\n(op-")[0]
        assert f">{method.upper()}</span> `{path}`" in section
        assert f"## {told['summary']}\n" in section
        for way in told.get("security", ()):
            assert f"Scope of the key: `{way['apiKey'][0]}`" in section, path
        assert f'"$URL{path.split("{")[0]}' in section.split("curl -s")[1], path
        assert "**Refusals**" in section or path in ("/healthz", "/readyz")


def test_every_example_body_is_one_that_the_document_allows() -> None:
    checked = 0
    for _, path, told in operations():
        content = told.get("requestBody", {}).get("content", {}).get("application/json")
        if content is None:
            continue
        section = section_of(told)
        (sent,) = re.findall(r"-d '(.*)'\n```", section)
        schema = {**content["schema"], "components": document()["components"]}
        Draft202012Validator(schema).validate(json.loads(sent))
        assert json.loads(sent) != {} or not content["schema"], path
        checked += 1
    assert checked > 25


def test_every_query_of_an_example_is_one_that_the_operation_takes() -> None:
    by_id = {told["operationId"]: told for _, _, told in operations()}
    assert examples.BODIES.keys() <= by_id.keys()
    for operation_id, query in examples.QUERIES.items():
        takes = {it["name"] for it in by_id[operation_id]["parameters"] if it["in"] == "query"}
        assert {part.split("=")[0] for part in query.split("&")} <= takes, operation_id
        assert f"?{query}" in section_of(by_id[operation_id])


def test_path_parts_take_no_name_that_a_shell_or_the_page_uses() -> None:
    text = "".join(pages().values())
    assert "$USER" not in text
    assert re.findall(r"/\$KEY\b", text) == []


def test_every_code_that_can_occur_stands_on_the_page_of_errors() -> None:
    codes = {
        code
        for _, _, told in operations()
        for status, answer in told["responses"].items()
        if status >= "4"
        for code in answer["description"].removeprefix("code: ").split(", ")
    }
    assert len(codes) > 50
    assert [code for code in sorted(codes) if f"`{code}`" not in pages()["errors.md"]] == []


def test_codes_of_a_run_stand_with_it_and_usual_ones_are_told_once() -> None:
    run = next(told for _, _, told in operations() if told["operationId"] == "run")
    section = section_of(run)
    assert "- 422: `context_over_budget`, `not_admitted`" in section
    assert "- 504: `provider_timeout`" in section
    assert "[as everywhere](errors.md)" in section
    assert "`unauthenticated`" not in section


def test_operation_with_an_unknown_tag_is_refused() -> None:
    strange = {"paths": {"/v1/x": {"get": {"operationId": "x", "tags": ["New"], "responses": {}}}}}
    with pytest.raises(ValueError, match="New"):
        reference.pages({**strange, "components": {"schemas": {}}})


def section_of(told: dict[str, Any]) -> str:
    page = pages()[f"{told['tags'][0].lower()}.md"]
    return page.split(f"(op-{told['operationId'].replace('_', '-')})=\n")[1].split("\n(op-")[0]


def test_fields_are_flat_with_types_bounds_and_what_is_needed() -> None:
    schemas = Schemas(
        {
            "Inner": {
                "type": "object",
                "properties": {"at": {"type": ["string", "null"], "format": "date-time"}},
            },
            "Word": {"type": "string", "enum": ["a", "b"], "description": "* `a` - A\n* `b` - B"},
        }
    )
    schema = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {
                "type": "string",
                "minLength": 1,
                "maxLength": 2000,
                "description": "Its name.",
            },
            "word": {"$ref": "#/components/schemas/Word"},
            "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Inner"}},
            "one": {"oneOf": [{"$ref": "#/components/schemas/Inner"}, {"type": "null"}]},
            "count": {"type": "integer", "maximum": 9},
        },
    }
    assert list(schemas.fields(schema)) == [
        Field("name", "text, 1 to 2,000 characters", is_needed=True, meaning="Its name."),
        Field("word", "`a` · `b`", is_needed=False, meaning=""),
        Field("parts", "list of object", is_needed=False, meaning=""),
        Field("parts[].at", "time, or null", is_needed=False, meaning=""),
        Field("one", "object, or null", is_needed=False, meaning=""),
        Field("one.at", "time, or null", is_needed=False, meaning=""),
        Field("count", "integer, at most 9", is_needed=False, meaning=""),
    ]
    assert schemas.example(schema) == {"name": "support"}
