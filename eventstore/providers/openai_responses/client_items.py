"""The calls of OpenAI Responses that a client answers in forms of their own, such as a shell's.

1. The name of a call is the protocol's: a `shell_call` calls the tool `shell`. Its arguments are
   what the item asks for: the action, or the operation.
2. What the API runs in a container of its own is no call of the client's; neither is a search for
   tools that the server makes.
3. An approval request asks a person. Its answer is a decision: yes where the call was approved or
   has completed with anything but a no, otherwise no, with the reason.
4. An output is made of what the log knows, as far as its form can say it. A screenshot and a list
   of tools cannot be made up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from eventstore.domain.calls import FunctionCall
from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, is_json_object
from eventstore.domain.messages import Image, Part, Text
from eventstore.domain.own_texts import APPROVED, is_own_text
from eventstore.providers.call_arguments import function_call
from eventstore.providers.json_values import as_text, copy, members_of
from eventstore.providers.media import image_of, url_of
from eventstore.providers.model import Answer, Call
from eventstore.providers.openai_responses.shapes import (
    CALL_OF,
    CALLS,
    PAIRED,
    Called,
    Paired,
)
from eventstore.providers.parts_as_text import answer_text
from eventstore.providers.shapes import misshapen

APPROVAL: Final = "mcp_approval_request"
"""The type of the item that asks for an approval, and the name of its call."""
_NAMES: Final = {
    "shell_call": "shell",
    "local_shell_call": "local_shell",
    "apply_patch_call": "apply_patch",
    "computer_call": "computer",
    "tool_search_call": "tool_search",
    APPROVAL: APPROVAL,
}
"""Type of a call to the name of its tool."""
_GIVEN: Final = {
    "shell_call": "action",
    "local_shell_call": "action",
    "apply_patch_call": "operation",
    "tool_search_call": "arguments",
}
"""Type of a call to the member that holds its arguments."""
MEMBERS: Final = {
    **{kind: {member} for kind, member in _GIVEN.items()},
    "computer_call": {"action", "actions", "pending_safety_checks"},
    APPROVAL: {"name", "server_label", "arguments"},
    "shell_call_output": {"output"},
    "local_shell_call_output": {"output"},
    "apply_patch_call_output": {"output"},
    "computer_call_output": {"output"},
    "tool_search_output": {"tools"},
    "mcp_approval_response": {"approval_request_id", "approve", "reason"},
}
"""The members of calls and outputs that arrive at other providers."""
_CHECKS: Final = "pending_safety_checks"
_encode: Final = msgspec.json.Encoder().encode


def is_client_call(item: JsonObject) -> bool:
    """Return whether an item calls what the client runs, in a form of its own."""
    kind = _kind(item)
    return kind in _NAMES and _is_run_by_client(kind, item) and not is_hosted(item)


def is_client_output(item: JsonObject) -> bool:
    """Return whether an item answers such a call."""
    call = CALL_OF.get(_kind(item), "")
    return call in _NAMES and _is_run_by_client(call, item)


def _kind(item: JsonObject) -> str:
    kind: JsonValue = item.get("type")
    return kind if isinstance(kind, str) else ""


def _is_run_by_client(call: str, item: JsonObject) -> bool:
    side = PAIRED[call].side
    return side is None or item.get("execution") == side


def is_hosted(item: JsonObject) -> bool:
    """Return whether the API itself runs the commands of an item, in a container of its own."""
    environment: JsonValue = item.get("environment")
    return (
        item.get("type") == "shell_call"
        and isinstance(environment, dict)
        and environment.get("type") not in (None, "local")
    )


class Calls:
    """The calls so far that decide what an output is: by their ids."""

    __slots__ = ("hosted", "particular")

    def __init__(self) -> None:
        self.hosted: set[str] = set()
        """Those that the API itself ran: their outputs are no results."""
        self.particular: set[str] = set()
        """Those whose outputs cannot be restored from a text alone."""

    def note(self, item: JsonObject) -> None:
        """Take in an item."""
        if "caller" not in item and "action" not in item:
            return
        call_id: JsonValue = item.get("call_id")
        if isinstance(call_id, str) and _kind(item) in PAIRED:
            (self.hosted if is_hosted(item) else self.particular).add(call_id)


def id_of_call(item: JsonObject) -> str | None:
    """Return the id by which an output names a call."""
    found: JsonValue = item.get(PAIRED[item["type"]].key)
    return found if isinstance(found, str) and found else None


def id_of_output(item: JsonObject) -> str | None:
    """Return the id of the call that an output names."""
    call = CALL_OF.get(_kind(item))
    names = ("call_id",) if call is None else ("call_id", PAIRED[call].answers)
    given = [item[name] for name in names if name in item] or [item.get("tool_call_id")]
    return given[0] if isinstance(given[0], str) and given[0] else None


def with_call_id(item: JsonObject, call_id: str) -> JsonObject:
    """Return an output with another id of its call, in place."""
    call = CALL_OF.get(item["type"], "")
    if call in CALLS:
        item["call_id"] = call_id
        return item
    given = id_of_output(item)
    for name in {"call_id", _paired(item).answers} & item.keys():
        if item[name] == given:  # beside a call_id, an id may be the item's own
            item[name] = call_id
    return item


def keyed(item: JsonObject, call_id: str) -> JsonObject:
    """Return a call with another id, in place."""
    item[PAIRED[item["type"]].key] = call_id
    return item


def _paired(item: JsonObject) -> Paired:
    kind = _kind(item)
    return PAIRED.get(CALL_OF.get(kind, kind), PAIRED["function_call"])


def is_sound(item: JsonObject) -> bool:
    """Return whether a call or an output of the client has the members that the API asks for."""
    kind = _kind(item)
    shape = _paired(item).output_shape if kind in CALL_OF else _paired(item).shape
    return misshapen(item, shape) is None


def caller_of(item: JsonObject) -> JsonObject:
    """Return the caller of a call as a member of its output; nothing where none is said."""
    caller: JsonValue = item.get("caller")
    if not isinstance(caller, dict) or misshapen(item, Called) is not None:
        return {}
    return {"caller": copy(caller)}


# what a call asks for


def asked(item: JsonObject) -> FunctionCall:
    """Return the call that an item makes."""
    kind = item["type"]
    if kind in CALLS:
        return function_call(item.get("name"), item.get(CALLS[kind]))
    return function_call(_NAMES[kind], _arguments(kind, item))


def _arguments(kind: str, item: JsonObject) -> object:
    if kind == APPROVAL:
        written = function_call("", item.get("arguments"))
        arguments: Any = written.arguments if written.raw is None else written.raw
        return {
            "server_label": item.get("server_label"),
            "name": item.get("name"),
            "arguments": arguments,
        }
    if kind != "computer_call":
        return item.get(_GIVEN[kind])
    action: JsonValue = item.get("action")
    given = members_of(action) if action is not None else {"actions": item.get("actions")}
    return {**given, _CHECKS: item[_CHECKS]} if item.get(_CHECKS) else given


def rewritten(item: JsonObject, call: Call, call_id: str) -> JsonObject | None:
    """Return an item that makes `call` in place of the call that it makes; None if it cannot."""
    kind = _kind(item)
    if kind == APPROVAL or not is_json_object(call.arguments) or call.raw is not None:
        return None
    given: JsonObject = copy(call.arguments)
    known = {"type", "status", "environment", "caller", "execution", "id"}
    made: JsonObject = {key: copy(value) for key, value in item.items() if key in known}
    keyed(made, call_id)
    if kind == "computer_call":
        given.pop(_CHECKS, None)
        made |= given if given.keys() == {"actions"} else {"action": given}
        made[_CHECKS] = copy(item.get(_CHECKS) or [])
    else:
        made[_GIVEN[kind]] = given
    return made if is_sound(made) else None


# what an output says


class Said(msgspec.Struct, frozen=True):
    """What an output says: its text, whether the call failed or was refused, and an image."""

    text: str
    is_error: bool = False
    rejected: bool = False
    parts: tuple[Part, ...] = ()


def said_by(item: JsonObject) -> Said:
    """Return what the output of a client's call says."""
    reads = _SAID.get(_kind(item))
    return Said(as_text(item.get("output"))) if reads is None else reads(item)


def _said_by_shell(item: JsonObject) -> Said:
    output: JsonValue = item.get("output")
    if not isinstance(output, list):
        return Said(as_text(output))
    said = (_printed(each) if isinstance(each, dict) else as_text(each) for each in output)
    return Said("\n".join(filter(None, said)), any(_has_failed(members_of(e)) for e in output))


def _said_by_patch(item: JsonObject) -> Said:
    return Said(as_text(item.get("output")), item.get("status") == "failed")


def _said_by_computer(item: JsonObject) -> Said:
    output: JsonValue = item.get("output")
    shown = screenshot_of(item)
    text = "[computer_screenshot]" if isinstance(output, dict) else as_text(output)
    return Said(text, item.get("status") == "failed", parts=(shown,) if shown else ())


def _said_by_search(item: JsonObject) -> Said:
    return Said(_encode(item.get("tools") or []).decode())


def _said_by_person(item: JsonObject) -> Said:
    if item.get("approve") is False:
        return Said(as_text(item.get("reason")), rejected=True)
    decided = {key: item[key] for key in ("approve", "reason") if item.get(key) is not None}
    return Said(_encode(decided).decode())


_SAID: Final = {
    "shell_call_output": _said_by_shell,
    "apply_patch_call_output": _said_by_patch,
    "computer_call_output": _said_by_computer,
    "tool_search_output": _said_by_search,
    "mcp_approval_response": _said_by_person,
}
"""Type of an output to what reads it; any other is a text."""


def _printed(entry: JsonObject) -> str:
    """Return what one command of a shell has printed, and how it ended if not well."""
    outcome = members_of(entry.get("outcome"))
    lines = [as_text(entry.get("stdout")), as_text(entry.get("stderr"))]
    if outcome.get("type") == "timeout":
        lines.append("[timed out]")
    elif outcome.get("exit_code"):
        lines.append(f"[exit code {as_text(outcome['exit_code'])}]")
    return "\n".join(filter(None, (line.removesuffix("\n") for line in lines)))


def _has_failed(entry: JsonObject) -> bool:
    outcome = members_of(entry.get("outcome"))
    return outcome.get("type") == "timeout" or bool(outcome.get("exit_code"))


def screenshot_of(item: JsonObject) -> Image | None:
    """Return the screenshot in an output, if it is one that others can show."""
    return image_of(members_of(item.get("output")).get("image_url"))


# an output for what the log knows


def output_of(call: Call, item: JsonObject) -> JsonObject | None:
    """Return the output that answers `call`, which `item` makes; None if it cannot be made up."""
    kind = PAIRED[item["type"]]
    answer = call.answer
    native = answer.native if answer.provider == "openai-responses" else None
    if native is not None and native.get("type") in (kind.output, kind.also):
        output = with_call_id(copy(native), item[kind.key])
        if answer.note:
            _add_note(output, answer.note)
        return output
    made = _MADE[kind.output](call, item)
    if made is None:
        return None
    return {"type": kind.output, kind.answers: item[kind.key], **made, **caller_of(item)}


def is_output_of(output: JsonObject, answer: Answer) -> bool:
    """Return whether an output is what `output_of` makes of an answer, whatever its call."""
    make = _MADE.get(_kind(output))
    if make is None:
        return False
    call = Call("", "", {}, answer)
    made = _decided(answer) if make is _decision else make(call, {"call_id": output.get("call_id")})
    return made is not None and all(output.get(key) == made[key] for key in made)


def words_beside(call: Call, output: JsonObject) -> str:
    """Return the words of an answer for which its output has no place; often none."""
    answer = call.answer
    if output.get("type") not in ("computer_call_output", "tool_search_output"):
        return ""
    is_own = answer.native is not None and answer.native.get("type") == output["type"]
    parts = () if is_own else answer.shown_parts
    texts = [part.text for part in parts if isinstance(part, Text)]
    return "\n".join(filter(None, (*texts, answer.note)))


def _add_note(output: JsonObject, note: str) -> None:
    held: JsonValue = output.get("output")
    if isinstance(held, str):
        output["output"] = f"{held}\n{note}"
    elif isinstance(held, list) and held and isinstance(held[-1], dict):
        held[-1]["stdout"] = f"{as_text(held[-1].get('stdout'))}\n{note}"


def _value(text: str) -> Any:
    """Return the JSON object or list that a text holds; otherwise the text."""
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def unknown_output(item: JsonObject, text: str) -> JsonObject:
    """Return the output of a shell's call of which only `text` is known."""
    entries = [_entry("", text, {"type": "exit", "exit_code": 1})]
    kind = PAIRED["shell_call"].output
    return {"type": kind, "call_id": item["call_id"], "output": entries, **caller_of(item)}


def _shell_output(call: Call, item: JsonObject) -> JsonObject:
    answer = call.answer
    more = {}
    if isinstance(most := members_of(item.get("action")).get("max_output_length"), int):
        more["max_output_length"] = most  # the API wants back what the model asked for
    if answer.is_error or is_own_text(answer.text):
        entries = [_entry("", answer.text, {"type": "exit", "exit_code": 1})]
    else:
        given = _value(answer.text)
        held: JsonValue = members_of(given).get("output", given)
        listed: list[JsonValue] = held if is_json_list(held) else [given]
        entries = list(_entries(listed))
        if not entries or len(entries) < len(listed):
            entries = [_entry(answer.text, "", {"type": "exit", "exit_code": 0})]
    output: JsonObject = {"output": entries, **more}
    if answer.note:
        _add_note(output, answer.note)
    return output


def _entries(values: list[JsonValue]) -> Iterator[JsonObject]:
    """Yield the entries of an output, for results that have what a shell gives."""
    for value in values:
        given = {"stdout": value} if isinstance(value, str) else members_of(value)
        if not given.keys() & _OF_SHELL or isinstance(given.get("output"), dict | list):
            continue
        outcome: JsonValue = given.get("outcome")
        if not isinstance(outcome, dict):
            code = next((given[key] for key in _CODES if isinstance(given.get(key), int)), 0)
            timed_out = given.get("timed_out") or outcome == "timeout"
            outcome = {"type": "timeout"} if timed_out else {"type": "exit", "exit_code": code}
        printed = as_text(given.get("stdout", given.get("output")))
        yield _entry(printed, as_text(given.get("stderr")), outcome)


_CODES: Final = ("exit_code", "returncode", "exitCode")
_OF_SHELL: Final = frozenset({"stdout", "stderr", "outcome", *_CODES})
"""Members of what a shell gives, as hosts name them."""


def _entry(stdout: str, stderr: str, outcome: JsonObject) -> JsonObject:
    return {"stdout": stdout, "stderr": stderr, "outcome": outcome}


def _local_shell_output(call: Call, item: JsonObject) -> JsonObject:
    # The reference names the call by the id, the guide and openai-agents by the call_id.
    return {"call_id": item["call_id"], "output": answer_text(call)}


def _patch_output(call: Call, _: JsonObject) -> JsonObject:
    answer = call.answer
    given = members_of(_value(answer.text))
    text, has_failed = answer.text, answer.is_error or is_own_text(answer.text)
    if given.keys() and given.keys() <= {"type", "call_id", "status", "output"}:
        text = as_text(given.get("output"))
        has_failed = has_failed or given.get("status") == "failed"
    text = f"{text}\n{answer.note}" if answer.note else text
    return {"status": "failed" if has_failed else "completed", "output": text}


def _screenshot(call: Call, item: JsonObject) -> JsonObject | None:
    answer = call.answer
    if answer.is_error:
        return None
    given = members_of(_value(answer.text))
    held = members_of(given.get("output")) or given
    images = [part for part in answer.shown_parts or answer.stored_parts if isinstance(part, Image)]
    shown: JsonObject = {"type": "computer_screenshot"}
    if images:
        shown["image_url"] = url_of(images[-1])
    elif isinstance(held.get("image_url"), str) or isinstance(held.get("file_id"), str):
        shown |= {key: held[key] for key in ("image_url", "file_id", "detail") if key in held}
    elif answer.text.startswith(("data:image/", "https://", "http://")):
        shown["image_url"] = answer.text
    else:
        return None
    checks: JsonValue = given.get("acknowledged_safety_checks", item.get(_CHECKS))
    return {"output": shown, **({"acknowledged_safety_checks": checks} if checks else {})}


def _found_tools(call: Call, _: JsonObject) -> JsonObject | None:
    given = _value(call.answer.text)
    tools: JsonValue = members_of(given).get("tools", given)
    if call.answer.is_error or not is_json_list(tools) or not all(map(is_json_object, tools)):
        return None
    return {"execution": "client", "status": "completed", "tools": tools}


def _decision(call: Call, item: JsonObject) -> JsonObject:
    if call.arguments != asked(item).arguments:  # the server would run what it asked for
        said = _encode(call.arguments).decode()
        return {"approve": False, "reason": f"Only other arguments were approved: {said}"}
    return _decided(call.answer)


def _decided(answer: Answer) -> JsonObject:
    if answer.is_error:
        return {"approve": False, "reason": answer_text(answer) if answer.note else answer.text}
    if is_own_text(answer.text):
        is_approved = answer.text == APPROVED
        return {"approve": is_approved, **({} if is_approved else {"reason": answer.text})}
    try:
        given: Any = msgspec.json.decode(answer.text)
    except (msgspec.DecodeError, RecursionError):
        return {"approve": True, **({"reason": answer.text} if answer.text else {})}
    decided = members_of(given).get("approve", given)
    reason: JsonValue = members_of(given).get("reason")
    says_why = {"reason": reason} if isinstance(reason, str) else {}
    return {"approve": decided is not False, **says_why}


_MADE: Final = {
    "shell_call_output": _shell_output,
    "local_shell_call_output": _local_shell_output,
    "apply_patch_call_output": _patch_output,
    "computer_call_output": _screenshot,
    "tool_search_output": _found_tools,
    "mcp_approval_response": _decision,
}
"""Type of an output to what makes its members."""
