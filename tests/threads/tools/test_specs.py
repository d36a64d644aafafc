"""What a provider is told of the tools."""

from __future__ import annotations

import json

import pytest

from threads.agents import KNOWN_TOOLS
from threads.tools.specs import TOOLS, tools_among


@pytest.mark.req("C09")
def test_every_tool_an_agent_may_have_is_there_and_no_other() -> None:
    assert set(TOOLS) == set(KNOWN_TOOLS)


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_schema_is_closed_and_names_nobody(name: str) -> None:
    schema = TOOLS[name].spec().parameters
    assert schema["additionalProperties"] is False
    properties = schema["properties"]
    assert isinstance(properties, dict)
    assert not {"user_id", "tenant", "agent_id", "role", "thread_id"} & set(properties)
    assert set(schema.get("required", ())) <= set(properties)  # type: ignore[call-overload]
    assert all(said["description"] for said in properties.values())
    json.dumps(schema)


def test_view_message_says_whose_files_it_opens() -> None:
    said = TOOLS["view_message"].description
    assert "files only of this run or of the run it goes on with" in said


def test_tools_of_an_agent_are_given_once_and_in_one_order() -> None:
    given = ["write_artifact", "memory_grep", "memory_grep", "memory_upsert", "nothing"]
    names = [tool.name for tool in tools_among(given)]
    assert names == ["memory_grep", "memory_upsert", "write_artifact"]
    assert tools_among([]) == ()
