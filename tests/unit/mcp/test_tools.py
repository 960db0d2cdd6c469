"""The table of tools: what each says of itself, and that its schemas, its example and its structs agree."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from board.mcp.arguments import WriteArguments
from board.mcp.calls import listed
from board.mcp.tools import TOOLS, Tool, decoded
from schema.codes import ProblemError
from schema.notes import Claim, Draft, Fact, PatchSummary

NAMES = [
    "board_read",
    "board_write",
    "board_claim",
    "board_release",
    "board_check",
    "board_grep",
    "board_unfold",
    "board_wait",
]
READERS = {"board_read", "board_check", "board_grep", "board_unfold", "board_wait"}

each = pytest.mark.parametrize("tool", TOOLS, ids=[tool.name for tool in TOOLS])


def test_the_tools_are_those_of_the_contract() -> None:
    """Eight tools, in this order."""
    assert [tool.name for tool in TOOLS] == NAMES


@each
def test_a_tool_says_what_it_is_for_when_to_call_it_and_how(tool: Tool) -> None:
    """A model needs all three: the purpose, the occasion, one example."""
    purpose, when, example = tool.description.split("\n\n")
    assert purpose.endswith((".", ")"))
    assert when.startswith("When: ")
    assert msgspec.json.decode(example.removeprefix("Example: ")) == tool.example


@each
def test_its_example_is_one_that_it_takes(tool: Tool) -> None:
    """The example satisfies the schema that clients see, and decodes."""
    Draft202012Validator(listed(tool)["inputSchema"]).validate(tool.example)
    assert decoded(tool.takes or tool.fields, tool.example) is not None


@each
def test_its_schemas_are_plain_objects(tool: Tool) -> None:
    """Valid schemas of objects, closed on the way in, without references, and every member of the input explained."""
    shown = listed(tool)
    for schema in (shown["inputSchema"], shown["outputSchema"]):
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert "$ref" not in str(schema)
    assert shown["inputSchema"]["additionalProperties"] is False
    assert all(member.get("description") for member in shown["inputSchema"]["properties"].values())


@each
def test_every_tool_takes_ack(tool: Tool) -> None:
    """An acknowledgement may come with any call."""
    ack = listed(tool)["inputSchema"]["properties"]["ack"]
    assert (ack["type"], ack["items"]["type"]) == ("array", "integer")


@each
def test_its_output_schema_admits_an_error(tool: Tool) -> None:
    """Clients hold the content of an error to the schema as well."""
    error = {"code": "claim_conflict", "detail": "d", "action": "a", "claim": 3, "notes": "x"}
    Draft202012Validator(listed(tool)["outputSchema"]).validate(error)


@each
def test_only_what_writes_is_marked_as_writing(tool: Tool) -> None:
    """A client may call what only reads without asking anybody; nothing destroys, and nothing leaves the board."""
    hints = listed(tool)["annotations"]
    assert hints["readOnlyHint"] is (tool.name in READERS)
    assert (hints["destructiveHint"], hints["openWorldHint"]) == (False, False)


def test_board_write_shows_the_fields_of_every_type() -> None:
    """Its flat struct, which only the schema is made of, has each member of each type of note, and no other."""
    members = {name for kind in Draft.__args__ for name in kind.__struct_fields__}
    assert set(WriteArguments.__struct_fields__) == members | {"type"}


@pytest.mark.parametrize(
    ("said", "draft"),
    [
        ({"type": "FACT", "text": "a", "scope": None}, Fact(text="a")),
        ({"type": "CLAIM", "text": "a", "scope": ["b"], "ttl_s": "60"}, Claim(text="a", scope=("b",), ttl_s=60)),
        (
            {"type": "PATCH_SUMMARY", "files": ["a"], "idea": "b", "evidence": "c"},
            PatchSummary(files=("a",), idea="b", evidence="c"),
        ),
    ],
)
def test_arguments_become_a_draft(said: dict[str, Any], draft: Draft) -> None:
    """Null counts as left out, and a number may come as text."""
    assert decoded(Draft, said) == draft


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"type": "FACT"}, "text"),
        ({"type": "FACT", "text": "a", "idea": "b"}, "idea"),
        ({"type": "NOTE", "text": "a"}, "type"),
        ({"type": "FACT", "text": "a", "refs": [{"rel": "hates", "seq": 1}]}, "refs[0].rel"),
    ],
)
def test_a_wrong_argument_is_named(said: dict[str, Any], field: str) -> None:
    """The refusal names the member, so that a model can correct it."""
    with pytest.raises(ProblemError) as caught:
        decoded(Draft, said)
    assert (caught.value.problem.code, caught.value.problem.facts["field"]) == ("invalid_field", field)
