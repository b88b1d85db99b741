"""The cases of the other SDKs: Gemini, Bedrock, Mistral, Cohere, Ollama. See `sdk_cases`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from support import sdk_cases
from support.sdk_cases import ASKED, USAGE, Case, Json, chat, completion_of, sdk_type
from support.sdk_values import values_of, variants

# gemini

_DATA = frozenset(
    {
        *("text", "inlineData", "fileData", "functionCall", "functionResponse"),
        *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
    }
)
"""The members of which a part has one; the others say more of it."""
_GIVEN = frozenset({"inlineData", "fileData", "functionResponse"})


def gemini() -> Iterator[Case]:
    """Yield the parts of Gemini, each with all that says more of it."""
    content = sdk_type("google.genai.types.Content")
    for value in values_of(sdk_type("google.genai.types.Part")):
        beside = {key: value[key] for key in value if key not in _DATA}
        for key in value:
            if key in _DATA:
                case = _part(deepcopy({**beside, key: value[key]}), key)
                made = content.model_validate(case.messages[0])
                spelled = made.parts[0].model_dump(mode="json", exclude_none=True)
                yield case._replace(objects=[made], spelled=spelled)


def _part(value: Json, key: str) -> Case:
    text = {"text": "said words"}
    asked = {"role": "user", "parts": [text]}
    before, after = [asked], [asked]
    if key in _GIVEN:
        for name in [name for name in value if name.startswith("thought")]:
            del value[name]
        if key == "functionResponse":
            call = {"functionCall": {"id": "id_words", "name": "name_words", "args": {}}}
            before = [asked, {"role": "model", "parts": [call]}]
        return Case(f"Part.{key}", value, before, [{"role": "user", "parts": [value]}], after, [])
    parts = [value, text]
    if key == "functionCall":
        response = {"id": "id_words", "name": "name_words", "response": {"output": "done"}}
        parts, after = [value], [{"role": "user", "parts": [{"functionResponse": response}]}]
    return Case(f"Part.{key}", value, before, [{"role": "model", "parts": parts}], after, [])


# mistral, cohere, ollama


def mistral() -> Iterator[Case]:
    """Yield the messages of Mistral."""
    models = "mistralai.client.models"
    response = sdk_type(f"{models}.ChatCompletionResponse")
    for kind in variants(sdk_type(f"{models}.ChatCompletionRequestMessage")):
        for value in values_of(kind):
            case = chat(kind, value)
            if case.said["role"] == "assistant":
                case.said["prefix"] = False
                completion = completion_of(case)
                completion["object"], completion["usage"] = "chat.completion", USAGE
                yield case._replace(objects=[response.model_validate(completion)])
            else:
                yield case._replace(objects=[kind.model_validate(case.said)])


def cohere() -> Iterator[Case]:
    """Yield the messages of Cohere."""
    response = sdk_type("cohere.V2ChatResponse") or sdk_type("cohere.ChatResponse")
    for value in values_of(sdk_type("cohere.AssistantMessageResponse")):
        case = chat(sdk_type("cohere.AssistantMessageResponse"), value)
        whole = {"id": "c_1", "finish_reason": "COMPLETE", "message": case.said}
        yield case._replace(objects=[response.construct(**whole)])
    for kind in variants(sdk_type("cohere.ChatMessageV2")):
        for value in values_of(kind):
            yield chat(kind, value)


def ollama() -> Iterator[Case]:
    """Yield the messages of Ollama."""
    kind = sdk_type("ollama.Message")
    response = sdk_type("ollama.ChatResponse")
    for value in values_of(kind):
        said = deepcopy(value) | {"role": "assistant"}
        result = {"role": "tool", "content": "done", "tool_name": "name_words"}
        case = Case("Message", said, [ASKED], [said], [result], [])
        read = said | {"images": [{"value": image} for image in said["images"]]}
        whole = {"model": "m", "done": True, "done_reason": "stop", "message": read}
        yield case._replace(objects=[response.model_validate(whole)])


# bedrock


def bedrock() -> Iterator[Case]:
    """Yield the blocks of Converse, by the service's own model."""
    session = importlib.import_module("botocore.session").Session()

    service = session.get_service_model("bedrock-runtime")
    block = service.shape_for("ContentBlock")
    for member, shape in block.members.items():
        for value in _shape_values(shape, member, ()):
            yield _converse_block(member, deepcopy({member: value}))
            if member in ("toolUse", "toolResult") and "type" in value:  # else the client's
                plain = {key: inner for key, inner in value.items() if key != "type"}
                yield _converse_block(member, deepcopy({member: plain}))


def _converse_block(member: str, value: Json) -> Case:
    text = {"text": "said words"}
    asked = {"role": "user", "content": [text]}
    name = f"ContentBlock.{member}"
    if member == "toolResult":
        value[member]["toolUseId"] = "call_1"
        if value[member]["content"][0].keys() - {"text"}:
            value[member]["status"] = "success"  # errors hold text alone
        call = {"toolUse": {"toolUseId": "call_1", "name": "f", "input": {}}}
        if "type" in value[member]:  # of a tool that the service ran
            call["toolUse"]["type"] = "server_tool_use"
            said = {"role": "assistant", "content": [call, value, text]}
            return Case(name, value, [asked], [said], [asked], [])
        before = [asked, {"role": "assistant", "content": [call]}]
        return Case(name, value, before, [{"role": "user", "content": [value]}], [], [])
    if member == "toolUse":
        result = {"toolUseId": value[member]["toolUseId"], "content": [text], "status": "success"}
        if "type" in value[member]:
            ran = {"toolResult": {**result, "type": "web_search"}}
            said = {"role": "assistant", "content": [value, ran, text]}
            return Case(name, value, [asked], [said], [asked], [])
        after = [{"role": "user", "content": [{"toolResult": result}]}]
        return Case(name, value, [asked], [{"role": "assistant", "content": [value]}], after, [])
    if member in ("reasoningContent", "citationsContent"):
        said = {"role": "assistant", "content": [value, text]}
        return Case(name, value, [asked], [said], [asked], [])
    return Case(name, value, [], [{"role": "user", "content": [text, value]}], [], [])


def _shape_values(shape: Any, name: str, around: tuple[str, ...]) -> list[Any]:
    """Return values of a shape of the service, which have each member of it at least once."""
    if shape.type_name == "structure" and shape.name not in around:
        inside = (*around, shape.name)
        filled = {key: _shape_values(s, key, inside) for key, s in shape.members.items()}
        filled = {key: values for key, values in filled.items() if values}
        if getattr(shape, "is_tagged_union", False):
            return [{key: value} for key, values in filled.items() for value in values]
        count = max(map(len, filled.values()), default=1)
        return [
            {key: values[number % len(values)] for key, values in filled.items()}
            for number in range(count)
        ]
    if shape.type_name == "list":
        return [[value] for value in _shape_values(shape.member, name, around)]
    if shape.type_name == "string":
        return list(getattr(shape, "enum", ())) or [f"{name}words"]
    plain: Mapping[str, list[Any]] = {
        "blob": ["aGVsZA=="],
        "boolean": [True, False],
        "double": [0.5],
        "float": [0.5],
        "integer": [7],
        "long": [7],
        "map": [{}],
    }
    is_document = getattr(shape, "is_document_type", False)
    return [{"given": "words"}] if is_document else plain.get(shape.type_name, [])


WIRES: Mapping[str, Callable[[], Iterator[Case]]] = {
    "anthropic": sdk_cases.anthropic,
    "bedrock": bedrock,
    "cohere": cohere,
    "gemini": gemini,
    "mistral": mistral,
    "ollama": ollama,
    "openai": sdk_cases.openai,
    "openai-responses": sdk_cases.responses,
}
"""Name of a wire to its cases."""
