"""Strategies for message lists of each provider, made of its real roles, block types and ids.

A history is a list of exchanges (calls and the results that answer them, complete or not) and of
single messages. Ids come from a small pool, so that they refer to each other often; any member may
be missing or hold a value of the wrong type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

Messages = list[Any]
Values = SearchStrategy[Any]

ODD = [
    10**400,
    "\ud800",
    "x" * 2_500,
    b"bytes",
    float("nan"),
    {"a"},
    object(),
    None,
    True,
    1,
    "",
    " \n",
    [],
    {},
]
KEYS = (
    *("role", "content", "parts", "type", "text", "id", "name", "arguments", "input", "output"),
    *("tool_calls", "tool_call_id", "tool_name", "function", "toolUse", "toolResult", "toolUseId"),
    *("functionCall", "functionResponse", "call_id", "prefix", "images", "status", "json"),
)
leaves = st.sampled_from(ODD) | st.sampled_from(["user", "assistant", "tool", "text", "error"])
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=12,
)
"""Values of any shape, most of them wrong wherever they stand."""


def mostly(strategy: Values) -> Values:
    """Generate this in nine cases of ten, and any value at all in the tenth."""
    return st.integers(0, 9).flatmap(lambda number: values if number == 9 else strategy)


def members(required: Mapping[str, Values], **optional: Values) -> Values:
    """Generate an object with these members, each of them sometimes odd."""
    return st.fixed_dictionaries(
        {key: mostly(value) for key, value in required.items()},
        optional={key: mostly(value) for key, value in optional.items()},
    )


def one(value: object) -> Values:
    """Generate this value."""
    return st.just(value)


def some(strategy: Values, most: int = 3) -> Values:
    """Generate a list of none, one or a few."""
    return st.lists(strategy, max_size=most)


call_ids = st.sampled_from(
    [
        "call_1",
        "call_2",
        "call_Abc123DefGhi456",
        "abcDEF001",
        "abcDEF002",
        "tool.1",
        "a b",
        "",
        "x" * 41,
        "x" * 65,
    ]
)
names = st.sampled_from(["search", "send_mail", "two words", "", "x" * 129, "x" * 201])
texts = st.sampled_from(["Hello.", "", " ", "ends with a blank "])
json_texts = st.sampled_from(['{"q": 1}', "{}", "[1]", "{", "NaN", "", '{"n": ' + "1" * 400 + "}"])
objects = st.sampled_from([{}, {"q": 1}])


class Form(NamedTuple):
    """The form of one provider: exchanges that break no rule, and messages of any kind."""

    exchange: Callable[[list[str]], tuple[Messages, Messages]]
    """The messages that make calls with these ids, and those that answer them."""
    message: Values
    opening: Messages
    closing: Messages
    ids: tuple[str, str, str]
    """Ids that the provider accepts."""


@st.composite
def histories(draw: st.DrawFn, form: Form) -> Messages:
    """Generate lists of exchanges, whole and broken, and of single messages."""
    history: Messages = draw(st.sampled_from([form.opening, []]))[:]
    for _ in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            history += draw(exchanges(form))
        else:
            history.append(draw(mostly(form.message)))
    history += draw(st.sampled_from([form.closing, []]))
    return history


@st.composite
def exchanges(draw: st.DrawFn, form: Form) -> Messages:
    """Generate calls and results; one message may be lost, repeated, moved or split."""
    ids = draw(st.lists(st.sampled_from(form.ids), min_size=1, max_size=3))
    calls, results = form.exchange(ids)
    messages = calls + results
    place = draw(st.integers(0, len(messages) - 1))
    match draw(st.sampled_from(["whole", "lost", "repeated", "moved", "split", "parted"])):
        case "lost":
            del messages[place]
        case "repeated":
            messages.insert(place, messages[place])
        case "moved":
            messages.append(messages.pop(place))
        case "split":
            messages[place : place + 1] = split(messages[place])
        case "parted":
            messages[place:place] = form.opening
    return messages


def split(message: Any) -> Messages:
    """Return a message for each part of this one; itself if it has none."""
    for key in ("content", "parts"):
        if isinstance(message.get(key), list):
            return [{**message, key: [part]} for part in message[key]]
    return [message]


def chat_exchange(ids: list[str]) -> tuple[Messages, Messages]:
    """Return an assistant message with `tool_calls`, and one tool message for each."""
    function = {"name": "search", "arguments": '{"q": 1}'}
    calls = [{"id": each, "type": "function", "function": function} for each in ids]
    results = [{"role": "tool", "tool_call_id": each, "content": "found"} for each in ids]
    return [{"role": "assistant", "content": "", "tool_calls": calls}], results


def anthropic_exchange(ids: list[str]) -> tuple[Messages, Messages]:
    """Return a message of `tool_use` blocks, and one of `tool_result` blocks."""
    toolset = {each: {"toolset_name": "browser"} if each == "call_1" else {} for each in ids}
    calls = [
        {"type": "tool_use", "id": each, "name": "search", "input": {}, **toolset[each]}
        for each in ids
    ]
    results = [
        {"type": "tool_result", "tool_use_id": each, "content": "found", **toolset[each]}
        for each in ids
    ]
    return [{"role": "assistant", "content": calls}], [{"role": "user", "content": results}]


def bedrock_exchange(ids: list[str]) -> tuple[Messages, Messages]:
    """Return a message of `toolUse` blocks, and one of `toolResult` blocks."""
    calls = [{"toolUse": {"toolUseId": each, "name": "search", "input": {}}} for each in ids]
    results = [{"toolResult": {"toolUseId": each, "content": [{"text": "found"}]}} for each in ids]
    return [{"role": "assistant", "content": calls}], [{"role": "user", "content": results}]


def gemini_exchange(ids: list[str]) -> tuple[Messages, Messages]:
    """Return a content of function calls, and one of function responses."""
    calls: Messages = [
        {"functionCall": {"id": each, "name": "search", "args": {}}, "thoughtSignature": "s"}
        for each in ids
    ]
    results = [
        {"functionResponse": {"id": each, "name": "search", "response": {"found": 1}}}
        for each in ids
    ]
    return [{"role": "model", "parts": calls}], [{"role": "user", "parts": results}]


def responses_exchange(ids: list[str]) -> tuple[Messages, Messages]:
    """Return function calls, and their outputs."""
    calls = [
        {"type": "function_call", "call_id": each, "name": "search", "arguments": "{}"}
        for each in ids
    ]
    return calls, [
        {"type": "function_call_output", "call_id": each, "output": "found"} for each in ids
    ]


def ollama_exchange(ids: list[str]) -> tuple[Messages, Messages]:
    """Return an assistant message with calls without ids, and their tool messages."""
    calls = [{"function": {"name": "search", "arguments": {}}} for _ in ids]
    results = [{"role": "tool", "tool_name": "search", "content": "found"} for _ in ids]
    return [{"role": "assistant", "content": "", "tool_calls": calls}], results


chat_parts = st.one_of(
    members({"type": one("text"), "text": texts}),
    members({"type": st.sampled_from(["image_url", "input_audio", "file", "tool_use"])}),
)
chat_content = st.one_of(texts, st.none(), some(mostly(chat_parts)))
chat_calls = st.one_of(
    members(
        {
            "id": call_ids,
            "type": one("function"),
            "function": members({"name": names, "arguments": st.one_of(json_texts, objects)}),
        },
        index=one(0),
    ),
    members(
        {
            "id": call_ids,
            "type": one("custom"),
            "custom": members({"name": names, "input": texts}),
        }
    ),
)
chat_messages = st.one_of(
    members(
        {
            "role": st.sampled_from(["user", "system", "developer", "function", "model"]),
            "content": chat_content,
        },
        name=names,
    ),
    members(
        {"role": one("assistant")},
        content=chat_content,
        tool_calls=some(mostly(chat_calls)),
        function_call=members({"name": names, "arguments": json_texts}),
        refusal=texts,
        prefix=st.booleans(),
        parsed=objects,
        thinking_blocks=one([]),
        name=names,
    ),
    members(
        {"role": one("tool"), "tool_call_id": call_ids, "content": chat_content},
        name=names,
    ),
)

inner_blocks = st.one_of(
    members({"type": one("text"), "text": texts}),
    members({"type": st.sampled_from(["image", "document", "tool_reference", "tool_use"])}),
)
anthropic_blocks = st.one_of(
    inner_blocks,
    members(
        {"type": one("tool_use"), "id": call_ids, "name": names, "input": objects},
        toolset_name=one("browser"),
        caller=one({"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}),
    ),
    members(
        {"type": one("tool_result"), "tool_use_id": call_ids},
        toolset_name=one("browser"),
        content=st.one_of(texts, some(inner_blocks)),
        is_error=st.sampled_from([True, True, False]),
    ),
    members(
        {"type": st.sampled_from(["thinking", "redacted_thinking"])},
        signature=texts,
        cache_control=objects,
    ),
    members(
        {
            "type": st.sampled_from(["server_tool_use", "mcp_tool_use"]),
            "id": st.sampled_from(["srvtoolu_1", "srvtoolu_2", "call_1"]),
            "name": one("web_search"),
        }
    ),
    members(
        {
            "type": st.sampled_from(["web_search_tool_result", "mcp_tool_result"]),
            "tool_use_id": st.sampled_from(["srvtoolu_1", "srvtoolu_2"]),
        }
    ),
    members({"type": st.sampled_from(["compaction", "tool_addition", "tool_removal", "new"])}),
)
anthropic_messages = st.one_of(
    members(
        {
            "role": st.sampled_from(["user", "assistant", "system", "model"]),
            "content": st.one_of(texts, some(mostly(anthropic_blocks), 4)),
        }
    ),
    one({"role": "assistant", "content": [{"type": "compaction", "content": "Before."}]}),
    one({"role": "system", "content": [{"type": "tool_addition"}]}),
)

bedrock_result_blocks = st.one_of(
    members({"text": texts}),
    members({"json": objects}),
    members({"toolUse": objects}),
    members({"image": objects}),
)
bedrock_blocks = st.one_of(
    members({"text": texts}, json=objects),
    members({"json": objects}),
    members({"document": objects}),
    members({"toolAddition": objects}),
    members({"reasoningContent": objects}),
    members(
        {
            "toolUse": members(
                {"toolUseId": call_ids, "name": names, "input": objects},
                type=st.sampled_from(["server_tool_use", None]),
            )
        }
    ),
    members(
        {
            "toolResult": members(
                {"toolUseId": call_ids, "content": some(mostly(bedrock_result_blocks))},
                status=st.sampled_from(["success", "error", "unknown"]),
            )
        }
    ),
)
_IMAGE = {"image": {"format": "png", "source": {"bytes": "AAAA"}}}
_SHEET = {"document": {"format": "csv", "name": "sheet", "source": {"bytes": "AAAA"}}}
bedrock_messages = st.one_of(
    members(
        {
            "role": st.sampled_from(["user", "assistant", "system", "model"]),
            "content": some(mostly(bedrock_blocks), 4),
        }
    ),
    one({"role": "user", "content": [{"text": "so far"}, *[{"cachePoint": {}}] * 5]}),
    one({"role": "user", "content": [{"text": "See."}, *[_IMAGE] * 21]}),
    one(
        {"role": "user", "content": [{"text": "See."}, _SHEET, {"cachePoint": {"type": "default"}}]}
    ),
)

gemini_calls = members({"name": names}, id=call_ids, args=st.none() | objects)
gemini_responses = members({"name": names, "response": objects}, id=call_ids)
gemini_parts = st.one_of(
    members({"text": texts}),
    members({"functionCall": gemini_calls}, thoughtSignature=texts),
    members({"function_call": gemini_calls}, thought_signature=texts),
    members({"functionResponse": gemini_responses}),
    members({"function_response": gemini_responses}),
    one({"text": None}),
)
gemini_contents = members(
    {
        "role": st.sampled_from(["user", "model", "function", "assistant", None]),
        "parts": some(mostly(gemini_parts), 4),
    }
)

response_parts = members(
    {"type": st.sampled_from(["input_text", "output_text", "refusal", "input_image", "text"])}
)
response_item_ids = st.sampled_from(
    ["fc_1", "rs_1", "msg_1", "msg_2", "fc_ ", "3f0e0000-0000-4000-8000-000000000001"]
)
response_items = st.one_of(
    members(
        {
            "role": st.sampled_from(["user", "assistant", "system", "developer", "tool"]),
            "content": st.one_of(texts, some(mostly(response_parts))),
        },
        type=one("message"),
        id=response_item_ids,
    ),
    members(
        {"type": one("function_call"), "call_id": call_ids, "name": names, "arguments": texts},
        id=response_item_ids,
    ),
    members({"type": one("custom_tool_call"), "call_id": call_ids, "name": names, "input": texts}),
    members(
        {
            "type": st.sampled_from(["function_call_output", "custom_tool_call_output"]),
            "call_id": call_ids,
            "output": st.one_of(texts, some(mostly(response_parts))),
        }
    ),
    members(
        {"type": one("reasoning")},
        id=response_item_ids,
        summary=one([]),
        encrypted_content=texts,
    ),
    members({"type": st.sampled_from(["tool_search_output", "web_search_call"])}),
    one({"type": None, "id": "msg_1"}),
)

ollama_messages = st.one_of(
    members(
        {"role": st.sampled_from(["user", "system", "model"]), "content": texts},
        images=st.one_of(some(st.sampled_from(["aGk=", b"hi"])), st.tuples(one("aGk="))),
        thinking=texts,
    ),
    members(
        {
            "role": one("assistant"),
            "content": texts,
            "tool_calls": some(
                mostly(
                    members({"function": members({"name": names, "arguments": objects})}, id=names)
                )
            ),
        }
    ),
    members(
        {"role": one("tool"), "content": texts, "tool_name": names},
        tool_call_id=call_ids,
    ),
)

USER: Messages = [{"role": "user", "content": "Hello."}]
ASSISTANT: Messages = [{"role": "assistant", "content": "Done."}]
CALL_IDS = ("call_1", "call_2", "call_3")

CHAT = Form(chat_exchange, chat_messages, USER, ASSISTANT, CALL_IDS)
FORMS: dict[str, Form] = {
    "anthropic": Form(anthropic_exchange, anthropic_messages, USER, ASSISTANT, CALL_IDS),
    "bedrock": Form(
        bedrock_exchange,
        bedrock_messages,
        [{"role": "user", "content": [{"text": "Hello."}]}],
        [{"role": "assistant", "content": [{"text": "Done."}]}],
        CALL_IDS,
    ),
    "cohere": CHAT,
    "gemini": Form(
        gemini_exchange,
        gemini_contents,
        [{"role": "user", "parts": [{"text": "Hello."}]}],
        [
            {"role": "model", "parts": [{"text": "Done."}]},
            {"role": "user", "parts": [{"text": "Go on."}]},
        ],
        CALL_IDS,
    ),
    "litellm": CHAT,
    "mistral": Form(
        chat_exchange,
        chat_messages,
        USER,
        [*ASSISTANT, *USER],
        ("abcDEF001", "abcDEF002", "abcDEF003"),
    ),
    "ollama": Form(ollama_exchange, ollama_messages, USER, ASSISTANT, CALL_IDS),
    "openai": CHAT,
    "openai-responses": Form(responses_exchange, response_items, USER, ASSISTANT, CALL_IDS),
}
"""The form of each provider; one that has none here is tested with `CHAT`."""
