"""Broken histories by the thousand, for Gemini and OpenAI Responses: see `broken_histories`."""

from __future__ import annotations

import copy
import random
from typing import Any

from support.broken_histories import IDS, JUNK, NAMES, TEXTS, Message, arguments, damage

URL = "https://example.com/a.png"
RED = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAAC0lEQVR4nGP4-_8"


def gemini(rng: random.Random) -> list[Message]:
    """Return a damaged history in Gemini's form."""
    names = rng.choice([_CAMEL, _CAMEL, _SNAKE])
    with_ids, signed = rng.random() < 0.5, rng.random() < 0.7
    contents: list[Message] = []
    for turn in range(rng.randint(0, 5)):
        contents.append({"role": "user", "parts": _said(rng, names, f"question {turn}")})
        for step in range(rng.randint(0, 3)):
            parts, answers = _called(rng, names, f"{turn}{step}", with_ids, signed)
            contents.append({"role": "model", "parts": parts})
            if rng.random() < 0.1:
                answers.append({"text": "go on"})
            contents.append({"role": rng.choice(["user", "user", "function"]), "parts": answers})
        contents.append({"role": "model", "parts": [{"text": f"answer {turn}"}]})
    return damage(rng, contents, _mangle_gemini)


_CAMEL = {
    "call": "functionCall",
    "response": "functionResponse",
    "signature": "thoughtSignature",
    "inline": "inlineData",
    "mime": "mimeType",
    "code": "executableCode",
    "file": "fileData",
    "uri": "fileUri",
}
_SNAKE = {
    "call": "function_call",
    "response": "function_response",
    "signature": "thought_signature",
    "inline": "inline_data",
    "mime": "mime_type",
    "code": "executable_code",
    "file": "file_data",
    "uri": "file_uri",
}


def _said(rng: random.Random, names: dict[str, str], text: str) -> list[Any]:
    parts: list[Any] = [{"text": text}]
    if rng.random() < 0.2:
        parts.append({names["inline"]: {names["mime"]: "image/png", "data": RED}})
    if rng.random() < 0.1:
        parts.append({names["file"]: {names["mime"]: "application/pdf", names["uri"]: "gs://b/f"}})
    if rng.random() < 0.1:
        parts.append({names["file"]: {names["mime"]: "image/png", names["uri"]: URL}})
    return parts


def _called(
    rng: random.Random, names: dict[str, str], place: str, with_ids: bool, signed: bool
) -> tuple[list[Any], list[Any]]:
    parts: list[Any] = []
    answers: list[Any] = []
    if rng.random() < 0.2:
        parts.append({"text": "hm", "thought": True})
    if rng.random() < 0.3:
        parts.append({"text": "looking"})
    if rng.random() < 0.1:
        parts.append({names["code"]: {"language": "PYTHON", "code": "print(1)"}})
    for number in range(rng.randint(1, 3)):
        name = rng.choice(NAMES[:2])
        given = {"id": f"{rng.choice([place, 'x'])}_{number}"} if with_ids else {}
        part: dict[str, Any] = {names["call"]: {**given, "name": name, "args": arguments(rng)}}
        if signed and not number:
            part[names["signature"]] = "c2ln"
        parts.append(part)
        text = rng.choice(TEXTS)
        response = rng.choice(
            [
                {"output": text},
                {"result": text},
                {"error": text or "no"},
                {"a": text, "b": [1]},
                {},
            ]
        )
        answer: dict[str, Any] = {**given, "name": name, "response": response}
        if rng.random() < 0.1:
            answer["parts"] = [{names["inline"]: {names["mime"]: "image/png", "data": RED}}]
        answers.append({names["response"]: answer})
    return parts, answers


def _mangle_gemini(rng: random.Random, content: Message) -> Message:
    if not isinstance(content, dict):
        return rng.choice(JUNK)
    parts = content.get("parts")
    if not isinstance(parts, list) or not parts or rng.random() < 0.2:
        field = rng.choice(["role", "parts", "extra"])
        content[field] = rng.choice(
            [*JUNK, "model", "user", "function", "system", "assistant", "tool"]
            if field == "role"
            else [*JUNK, *TEXTS]
        )
        return content
    place = rng.randrange(len(parts))
    kind = rng.randrange(8)
    if kind == 0:
        rng.shuffle(parts)
    elif kind == 1:
        parts.append(copy.deepcopy(parts[place]))
    elif kind == 2:
        del parts[place]
    elif kind == 3:
        parts[place] = rng.choice(JUNK)
    elif isinstance(parts[place], dict) and parts[place]:
        part = parts[place]
        key = rng.choice(list(part))
        body = part[key]
        if kind == 4 or not isinstance(body, dict) or not body:
            part[key] = rng.choice([*JUNK, *TEXTS])
        elif kind == 5:
            body.pop(rng.choice(list(body)))
        else:
            body[rng.choice([*body, "id", "name"])] = rng.choice([*JUNK, *IDS, *NAMES])
    return content


def openai_responses(rng: random.Random) -> list[Message]:
    """Return a damaged history in the form of OpenAI Responses."""
    items: list[Message] = []
    with_ids, reasons = rng.random() < 0.6, rng.random() < 0.5
    if rng.random() < 0.3:
        items.append({"role": rng.choice(["system", "developer"]), "content": "be brief"})
    for turn in range(rng.randint(0, 5)):
        items.append({"role": "user", "content": _asked(rng, f"question {turn}")})
        for step in range(rng.randint(0, 3)):
            place = f"{turn}{step}"
            if reasons:
                items.append(_reasoning(place, with_ids=with_ids))
            if rng.random() < 0.2:
                items.append(_message(rng, "looking", f"{place}a", with_ids=with_ids))
            if rng.random() < 0.1:
                items.append(
                    {
                        "type": "web_search_call",
                        "id": f"ws_{place}",
                        "status": "completed",
                        "action": {"type": "search"},
                    }
                )
            calls = [_call(rng, f"{place}{n}", with_ids=with_ids) for n in range(rng.randint(1, 3))]
            outputs = [_output(rng, call) for call in calls]
            if rng.random() < 0.2:
                rng.shuffle(outputs)
            items += calls + outputs
        items.append(_message(rng, f"answer {turn}", f"{turn}", with_ids=with_ids))
    return damage(rng, items, _mangle_item)


def _asked(rng: random.Random, text: str) -> Any:
    if rng.random() < 0.7:
        return text
    parts: list[Any] = [{"type": "input_text", "text": text}]
    parts.append(
        rng.choice(
            [
                {"type": "input_image", "image_url": URL, "detail": "auto"},
                {
                    "type": "input_image",
                    "image_url": f"data:image/png;base64,{RED}",
                    "detail": "low",
                },
                {
                    "type": "input_file",
                    "file_data": "data:application/pdf;base64,AA==",
                    "filename": "f",
                },
            ]
        )
    )
    return parts


def _reasoning(place: str, *, with_ids: bool) -> Message:
    given = {"id": f"rs_{place}"} if with_ids else {}
    return {"type": "reasoning", **given, "summary": [], "encrypted_content": "gAAAA"}


def _message(rng: random.Random, text: str, place: str, *, with_ids: bool) -> Message:
    if rng.random() < 0.4:
        return {"role": "assistant", "content": text}
    part = {"type": "output_text", "text": text, "annotations": []}
    if rng.random() < 0.1:
        part = {"type": "refusal", "refusal": text}
    given = {"id": f"msg_{place}"} if with_ids else {}
    return {
        "type": "message",
        "role": "assistant",
        **given,
        "status": "completed",
        "content": [part],
    }


def _call(rng: random.Random, place: str, *, with_ids: bool) -> Message:
    given: Message = {"call_id": f"call_{rng.choice([place, place, 'x' + place[-1]])}"}
    if rng.random() < 0.1:
        return {"type": "custom_tool_call", **given, "name": "shell", "input": "ls -l"}
    if with_ids:
        given["id"] = f"fc_{place}"
    text = rng.choice(['{"city": "Oslo"}', "{}", '{"city":"Rome"}', "", "not json", "[1]"])
    return {"type": "function_call", **given, "name": rng.choice(NAMES[:2]), "arguments": text}


def _output(rng: random.Random, call: Message) -> Message:
    text: Any = rng.choice(TEXTS)
    if rng.random() < 0.2:
        text = [
            {"type": "input_text", "text": text},
            {"type": "input_image", "image_url": URL, "detail": "auto"},
        ]
    return {"type": f"{call['type']}_output", "call_id": call["call_id"], "output": text}


def _mangle_item(rng: random.Random, item: Message) -> Message:
    if not isinstance(item, dict) or not item:
        return rng.choice(JUNK)
    field = rng.choice([*item, "id", "call_id", "type", "role", "extra"])
    kind = rng.randrange(4)
    if kind == 0:
        item.pop(field, None)
    elif field in ("id", "call_id"):
        item[field] = rng.choice([*IDS, *JUNK, "fc_00", "rs_00", "msg_0", "fc_10"])
    elif field == "type":
        item[field] = rng.choice(
            [
                "message",
                "function_call",
                "function_call_output",
                "reasoning",
                "item_reference",
                "additional_tools",
                "tool_search_call",
                "mcp_approval_response",
                *JUNK,
            ]
        )
    elif field == "role":
        item[field] = rng.choice(["user", "assistant", "developer", "tool", "function", *JUNK])
    else:
        item[field] = rng.choice([*JUNK, *TEXTS, *NAMES])
    return item
