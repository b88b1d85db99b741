"""Members that an SDK's client adds or renames do not go to a provider, in any form."""

from __future__ import annotations

from typing import Any

import pytest
from support import sse

from eventstore import Conversation, recording, validate
from eventstore.dispatch.value_types import to_json
from eventstore.domain.jsonable import readable
from eventstore.providers import ProviderName, list_key
from eventstore.providers.client_members import ClientMembers
from eventstore.providers.model import Change
from projections import model_history, repair_messages

Json = dict[str, Any]
ASK: Json = {"role": "user", "content": "Order 7?"}
OWN = ("parsed", "parsed_arguments", "parsed_output", "index", "from_", "async_")
"""Members of the clients, of which the wires have none."""


def names_in(value: Any) -> set[str]:
    """Return the names of all members of a value."""
    if isinstance(value, list):
        return set().union(*map(names_in, value))
    if isinstance(value, dict):
        return {*value}.union(*map(names_in, value.values()))
    return set()


def prompt(chat: Conversation, provider: ProviderName) -> list[Json]:
    """Return the messages of the next request."""
    messages: list[Json] = model_history(chat.events()).render(provider)[list_key(provider)]
    return messages


def chat_calls(parsed: object) -> Json:
    """Return a message of Chat Completions as its client has it after a stream."""
    function = {"name": "find", "arguments": '{"index": 1}', "parsed_arguments": parsed}
    call = {"id": "call_1", "type": "function", "function": function, "index": 0}
    return {"role": "assistant", "content": "so", "parsed": parsed, "tool_calls": [call]}


MESSAGES: list[Any] = [
    pytest.param("openai", chat_calls({"index": 1}), 3, id="openai"),
    pytest.param("mistral", {"role": "assistant", "content": "so", "parsed": {}}, 1, id="mistral"),
    pytest.param(
        "anthropic",
        {
            "role": "assistant",
            "content": [
                {"type": "fallback", "from_": {"model": "a"}, "to": {"model": "b"}},
                {"type": "text", "text": "so", "parsed_output": {"so": 1}},
            ],
        },
        2,
        id="anthropic",
    ),
    pytest.param(
        "openai-responses",
        {
            "type": "custom_tool_call",
            "call_id": "call_1",
            "name": "find",
            "input": "async_",
            "async_": True,
            "parsed_arguments": None,
        },
        2,
        id="openai-responses",
    ),
    pytest.param(
        "openai",
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "custom",
                    "custom": {"name": "find", "input": "parsed", "parsed": None},
                }
            ],
        },
        1,
        id="the body of a custom call",
    ),
    pytest.param(
        "openai-responses",
        {
            "type": "additional_tools",
            "role": "developer",
            "tools": [
                {
                    "type": "function",
                    "name": "find",
                    "parameters": {"properties": {"from": {}}},
                    "async_": True,
                }
            ],
        },
        1,
        id="tools in an item",
    ),
]


@pytest.mark.parametrize(("provider", "message", "changes"), MESSAGES)
def test_a_dict_with_members_of_the_client_is_mended(
    chat: Conversation, provider: ProviderName, message: Json, changes: int
) -> None:
    """Each is named by `validate` and in the repairs, and what the wire has is kept."""
    given = [ASK, message]
    before = repr(given)
    assert [found for found in validate(given, provider) if found.level != "strict"] or (
        provider == "mistral"
    )
    repaired = repair_messages(given, provider)
    named = [repair for repair in repaired.repairs if repair.rule in ("form", "AN13")]
    assert len(named) == changes
    chat.record(ASK, provider)
    chat.record(message, provider)
    for messages in (repaired.messages, prompt(chat, provider)):
        assert names_in(messages).isdisjoint({*OWN} - {"index"})
        assert not any("index" in call for m in messages for call in m.get("tool_calls", ()))
        assert [found for found in validate(messages, provider) if found.level == "hard"] == []
    assert repair_messages(repaired.messages, provider).repairs == []
    assert repr(given) == before


def test_a_renamed_member_stays_in_its_place() -> None:
    """A member that bears a `_` has the wire's name; one that was not there is left out."""
    client = ClientMembers(renamed={"fallback": "from_"})
    changes: list[Change] = []
    block = {"from_": 1, "to": 2, "type": "fallback"}
    assert client.without([block], "form", changes) == [{"from": 1, "to": 2, "type": "fallback"}]
    assert [*client.without(block, "form", changes)] == ["from", "to", "type"]  # type: ignore[misc]
    assert client.without({**block, "from_": None}, "form", changes) == {
        "to": 2,
        "type": "fallback",
    }
    other = {"type": "text", "from_": 1}
    assert client.without(other, "form", changes) is other
    assert [change.what for change in changes] == ["rewritten", "rewritten", "dropped"]


def test_arguments_and_schemas_keep_their_names(chat: Conversation) -> None:
    """Arguments and schemas may have any names, also those of the clients."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"from_": 1, "parsed": 2}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": '{"index": 0}'}
    given = [
        ASK,
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    assert validate(given, "anthropic") == []
    assert repair_messages(given, "anthropic").messages == given
    chat.record_messages(given, "anthropic")
    assert prompt(chat, "anthropic") == given


@pytest.mark.parametrize("provider", sse.HELPERS)
@pytest.mark.parametrize("dumped", [False, True])
def test_the_final_object_of_a_stream_has_members_of_the_wire(
    chat: Conversation, provider: Any, dumped: bool
) -> None:
    """The result of a helper of the SDK goes back, as an object and as `model_dump()`."""
    pytest.importorskip("anthropic")
    sdk = pytest.importorskip("openai")
    if not hasattr(sdk.resources.chat.Completions, "stream"):
        pytest.skip("this openai has other helpers")
    with sse.stream_manager(provider, sse.EVENTS[provider]()) as stream:
        ends = ("get_final_message", "get_final_completion", "get_final_response")
        whole = next(getattr(stream, end) for end in ends if hasattr(stream, end))()
    chat.record(ASK, provider)
    chat.record(whole.model_dump() if dumped else whole, provider)
    shown = prompt(chat, provider)
    assert names_in(shown).isdisjoint(OWN)
    assert [found for found in validate(shown, provider) if found.level == "hard"] == []


def test_streamed_items_have_the_wires_names(chat: Conversation) -> None:
    """The SDK's events have `async_`; the next request has `async`."""
    responses = pytest.importorskip("openai.types.responses")
    if "async_" not in responses.ResponseFunctionToolCall.model_fields:
        pytest.skip("this openai has no such member")
    events = sse.EVENTS["openai-responses"]()
    for event in events:
        for item in (event.get("item"), *event.get("response", {}).get("output", ())):
            if item and item["type"] == "function_call":
                item["async"] = True
    chat.record(ASK, "openai-responses")
    with recording(sse.open_stream("openai-responses", events), chat, "openai-responses") as read:
        list(read)
    calls = [item for item in prompt(chat, "openai-responses") if "arguments" in item]
    assert [item["async"] for item in calls] == [True, True]
    assert "async_" not in calls[0]


def test_a_streamed_fallback_has_the_wires_names(chat: Conversation) -> None:
    """A block of the beta, whose member `from` is `from_` in Python."""
    beta = pytest.importorskip("anthropic.types.beta")
    if not hasattr(beta, "BetaFallbackBlock"):
        pytest.skip("this anthropic has no such block")
    block = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}
    block["trigger"] = {"type": "refusal", "category": "cyber"}
    made = beta.BetaFallbackBlock.model_validate(block)
    started = beta.BetaRawContentBlockStartEvent.construct(
        type="content_block_start", index=4, content_block=made
    )
    events: list[Any] = sse.EVENTS["anthropic"]()
    events[-2:-2] = [started, {"type": "content_block_stop", "index": 4}]
    chat.record(ASK, "anthropic")
    with recording(iter(events), chat, "anthropic") as read:
        list(read)
    assert {**block} in prompt(chat, "anthropic")[1]["content"]


def test_models_of_tools_have_the_names_of_their_schema() -> None:
    """The result of a tool is JSON by the names that its schema declares."""
    pydantic = pytest.importorskip("pydantic")

    class Range(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        """A range of days."""

        from_: int = pydantic.Field(alias="from")

    value = Range.model_validate({"from": 7})
    assert to_json(value) == {"from": 7}
    assert readable(value)[0] == {"from": 7}
