"""The rules of OpenAI Responses, OR01 to OR07, over the `input` of a request.

Every call that a client answers is paired with its output: those of functions and of custom tools,
and those of a shell, a patch, a computer, a search for tools, or an approval. Calls that the API's
own servers run (searches, code, images) are not, except for the shell of a container: the API asks
for its output as well.

An item reference stands for an item that the server keeps: an output after one may answer it. So
does the whole of a request that has a `previous_response_id` or a `conversation`, which is why a
request may be judged as well as its input alone.

A star after a code marks the part of the rule that only some servers hold, such as vLLM.

A fault without a row of its own in the table is reported as OR05: items that are not objects or
whose type or role is unknown, names and outputs of a wrong form, parts in the wrong place, and
reasoning without a summary.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from eventstore.providers.openai_responses.shapes import (
    CALL_OF,
    CALLS,
    CLIENT_MEMBERS,
    GIVEN,
    ITEMS,
    PAIRED,
    PARTS,
    PREFIXES,
    RENAMED,
    SAID,
    SHOWN,
    STATUSES,
    TEXT_OUTPUTS,
    TYPES,
    Called,
)
from eventstore.providers.rules_reader import (
    Members,
    apply_checks,
    holds_json_object,
    is_list,
    list_or_empty,
    listed,
    members_of,
    pairing_key,
    quoted,
    text_or_none,
)
from eventstore.providers.shapes import misshapen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from eventstore.providers.openai_responses.shapes import Paired
    from eventstore.providers.rule_book import Finding, Rule
    from eventstore.providers.rules_reader import Fault

__all__ = ["RULES", "findings"]

RULES: Final[dict[str, Rule]] = {
    "OR01": (
        "hard",
        "{place}: {detail}",
        "put one output with this call_id after the call, or take the call out",
    ),
    "OR02": (
        "hard",
        "{place}: No tool call found for {detail}.",
        "move the output to after its call, or keep what it says as a message",
    ),
    "OR03": (
        "hard",
        "{place}: {detail}",
        "leave the id out, or send each item once, with the id that the API gave it",
    ),
    "OR04": (
        "hard",
        "Item {detail} of type 'reasoning' was provided without its required following item.",
        (
            "send the item that came after the reasoning directly after it, under its id, "
            "or leave both out"
        ),
    ),
    "OR05": (
        "hard",
        "Invalid '{place}': {detail}",
        "send call_id, name and arguments as text, the output as text or a list of parts",
    ),
    "OR05*": (
        "strict",
        "Invalid '{place}': the arguments must be the JSON text of an object, but are {detail}.",
        "send the arguments as a JSON object; wrap any other text in one",
    ),
    "OR06": (
        "strict",
        "{place}: a message stands between the call {detail} and its output",
        "put the outputs directly after their calls",
    ),
    "OR07": (
        "strict",
        "{place}.annotations: Field required",
        "send each `output_text` with its annotations; an empty list will do",
    ),
}
"""Code to level, the API's words and the remedy."""

_ROLES: Final = frozenset({"user", "assistant", "system", "developer"})
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ITEM_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MAX_ID_LENGTH: Final = 64


def findings(messages: object) -> Iterator[Finding]:
    """Yield code, place and detail of everything in `messages` that breaks a rule.

    Text alone is a valid input too, and so is a whole request.
    """
    request = members_of(messages)
    given = request.get("input", messages)
    if is_list(given):
        items = [_item(index, item) for index, item in enumerate(given)]
        checks = _CHECKS_OF_CONTINUED if _is_continued(request) else _CHECKS
        yield from apply_checks(checks, items)
    elif not isinstance(given, str):
        yield "OR05", "input", f"expected text or a list of items, but got {quoted(given)}."


def _is_continued(request: Members) -> bool:
    """Return whether a request continues from items that the server keeps."""
    return any(request.get(key) is not None for key in ("previous_response_id", "conversation"))


_Pair: TypeAlias = tuple[str, object]
"""What a call and its output have in common: a kind, and an id."""


class _Item(NamedTuple):
    """An item, or a message; a value that is not an object is read as one without members.

    `call` and `output` are what pairs a call with its output; None in what is neither.
    """

    place: str
    kind: str | None
    body: Members
    call: _Pair | None = None
    output: _Pair | None = None


def _item(index: int, raw: object) -> _Item:
    body = members_of(raw)
    kind = body.get("type")
    if kind is None and body:
        holds_only_id = body.keys() - {"type"} == {"id"}  # the type of a reference may be null
        kind = "message" if "role" in body else "item_reference" if holds_only_id else None
    place, kind = f"input[{index}]", text_or_none(kind)
    if kind in PAIRED and _is_for_client(PAIRED[kind], body):
        return _Item(place, kind, body, (_family(kind), pairing_key(body.get(PAIRED[kind].key))))
    if kind in CALL_OF and _is_for_client(PAIRED[CALL_OF[kind]], body):
        names = ("call_id", PAIRED[CALL_OF[kind]].answers)
        given = [body[name] for name in names if body.get(name) is not None] or [None]
        return _Item(place, kind, body, None, (_family(CALL_OF[kind]), pairing_key(given[0])))
    return _Item(place, kind, body)


def _is_for_client(kind: Paired, body: Members) -> bool:
    return kind.side is None or body.get("execution") == kind.side


def _family(call: str) -> str:
    """Return what calls have in common that one type of output answers."""
    return CALL_OF[PAIRED[call].also or PAIRED[call].output]


def _in_words(kind: str | None) -> str:
    """Return the type of a call as the API's messages have it."""
    words = "function_call" if kind in CALLS else str(kind)
    return words.replace("_", " ").replace("mcp", "MCP")


def _unanswered(items: list[_Item]) -> Iterator[Fault]:
    """Check OR01: every call has one output, later in the same input."""
    waiting: dict[_Pair, deque[_Item]] = {}
    second: set[str] = set()
    for item in items:
        if item.call is not None:
            waiting.setdefault(item.call, deque()).append(item)
        elif item.output is not None:
            calls = waiting.get(item.output)
            if calls:
                calls.popleft()
            elif calls is not None:
                second.add(item.place)
    unanswered = {item.place for calls in waiting.values() for item in calls}
    for item in items:
        if item.call is not None and item.place in unanswered:
            called = f"{_in_words(item.kind)} {listed([item.call[1]])}"
            yield item.place, f"No tool output found for {called}."
        elif item.output is not None and item.place in second:
            yield item.place, f"More than one output found for call {listed([item.output[1]])}."


def _outputs_without_calls(items: list[_Item]) -> Iterator[Fault]:
    """Check OR02: every output answers a call earlier in the input."""
    asked: set[_Pair] = set()
    for item in items:
        if item.kind == "item_reference":
            return  # the server knows what it refers to
        if item.call is not None:
            asked.add(item.call)
        elif item.output is not None and item.output not in asked:
            words = _in_words(CALL_OF[item.kind or ""])
            yield item.place, f"{words} output with call_id {listed([item.output[1]])}"


def _illegal_item_ids(items: list[_Item]) -> Iterator[Fault]:
    """Check OR03: ids of items are unique, and begin with the prefix of their kind.

    A UUID is accepted in any place: some compatible servers give no other ids.
    """
    seen: set[str] = set()
    for item in items:
        item_id = item.body.get("id")
        if item_id is None or (item.output is not None and item.output[1] == item_id):
            continue  # the id of an output may be that of its call
        place, prefixes = f"{item.place}.id", PREFIXES.get(item.kind or "")
        if not isinstance(item_id, str):
            yield place, f"expected text, but got {quoted(item_id)}."
            continue
        if item_id in seen:
            yield place, f"Duplicate item found with id {listed([item_id])}."
        seen.add(item_id)
        has_prefix = prefixes is None or item_id.startswith(prefixes)
        if prefixes and not has_prefix and not _UUID.fullmatch(item_id):
            yield (
                place,
                (
                    f"Invalid '{place}': {quoted(item_id)}. "
                    f"Expected an ID that begins with '{prefixes[0]}'."
                ),
            )
        elif prefixes and not _ITEM_ID.fullmatch(item_id):
            yield (
                place,
                f"Invalid '{place}': {quoted(item_id)}. Expected 1 to 64 of [a-zA-Z0-9_-].",
            )


def _stranded(items: list[_Item]) -> Iterator[Fault]:
    """Check OR04: a reasoning item is directly followed by what the model said or called after it.

    The API knows the two by their ids: after reasoning that it keeps, it does not find a message
    without an id (OpenHands/software-agent-sdk#1754). Whether a call without reasoning before it
    came with reasoning cannot be seen.
    """
    stranded: list[_Item] = []
    is_followed = lacks_id = False
    for item in reversed(items):
        if item.kind != "reasoning":
            is_followed = _is_from_model(item)
            lacks_id = item.kind == "message" and item.body.get("id") is None
        elif not is_followed or (lacks_id and _is_stored_by_api(item)):
            stranded.append(item)
    for item in reversed(stranded):
        yield item.place, quoted(item.body.get("id"))


def _is_stored_by_api(item: _Item) -> bool:
    """Return whether the API looks an item up: it has an id of the API, and no content itself."""
    item_id = item.body.get("id")
    has_api_id = isinstance(item_id, str) and item_id.startswith("rs_")
    return has_api_id and not item.body.get("encrypted_content")


def _is_from_model(item: _Item) -> bool:
    if item.kind == "message":
        return item.body.get("role") == "assistant"
    if item.kind is None:
        return False
    return (
        not item.kind.endswith(("_output", "_response")) or item.body.get("execution") == "server"
    )


def _malformed(items: list[_Item]) -> Iterator[Fault]:
    """Check OR05: items are objects; ids, names and arguments are text."""
    for item in items:
        if item.kind is None:
            yield item.place, "expected an item with a type or a role."
        elif item.kind not in TYPES:
            yield f"{item.place}.type", f"{quoted(item.kind)} is not the type of an item."
        elif item.kind == "message":
            yield from _malformed_message(item)
        elif item.kind in CALLS:
            yield from _malformed_call(item, CALLS[item.kind])
        elif item.kind in TEXT_OUTPUTS:
            yield from _malformed_call_id(item)
            yield from _malformed_caller(item)
            if item.body.get("content"):
                yield f"{item.place}.content", "Unknown parameter."
            output = item.body.get("output")
            yield from _malformed_parts(f"{item.place}.output", output, SHOWN)
        elif item.call is not None or item.output is not None:
            yield from _malformed_client_item(item)
        else:
            yield from _malformed_other(item)
        yield from _clients_members(item)


def _clients_members(item: _Item) -> Iterator[Fault]:
    """Yield the members that the client has added or renamed, in an item and what it holds."""
    body = item.body
    if (renamed := RENAMED.get(item.kind or "")) in body:
        yield f"{item.place}.{renamed}", "Unknown parameter."
    for member in CLIENT_MEMBERS.intersection(body):
        yield f"{item.place}.{member}", "Unknown parameter."
    for number, part in enumerate(list_or_empty(body.get("content"))):
        for member in CLIENT_MEMBERS.intersection(members_of(part)):
            yield f"{item.place}.content[{number}].{member}", "Unknown parameter."
    for number, tool in enumerate(list_or_empty(body.get("tools"))):
        members = members_of(tool)
        renamed = RENAMED.get(text_or_none(members.get("type")) or "")
        if renamed in members:
            yield f"{item.place}.tools[{number}].{renamed}", "Unknown parameter."


def _malformed_client_item(item: _Item) -> Iterator[Fault]:
    """Yield what is wrong with a call that the client runs in a form of its own, or its output."""
    kind = item.kind or ""
    shape = PAIRED[kind].shape if item.call is not None else PAIRED[CALL_OF[kind]].output_shape
    if fault := misshapen(item.body, shape):
        yield f"{item.place}{fault.place}", f"{fault.detail}."
    for member in ("content", "output") if item.call is not None else ("content",):
        if item.body.get(member):
            yield f"{item.place}.{member}", "Unknown parameter."
    _, key = item.call or item.output or ("", None)
    if isinstance(key, str) and len(key) > _MAX_ID_LENGTH:
        name = PAIRED[kind].key if item.call is not None else PAIRED[CALL_OF[kind]].answers
        yield f"{item.place}.{name}", _too_long(key)


def _malformed_caller(item: _Item) -> Iterator[Fault]:
    if "caller" in item.body and (fault := misshapen(item.body, Called)):
        yield f"{item.place}{fault.place}", f"{fault.detail}."


def _malformed_other(item: _Item) -> Iterator[Fault]:
    """Yield what is wrong with reasoning, or with what the API's own tools did."""
    if item.kind == "reasoning":
        yield from _malformed_reasoning(item)
    if not isinstance(item.body.get("encrypted_content"), str | None):
        yield f"{item.place}.encrypted_content", "expected a string."
    elif item.kind in ITEMS and (fault := misshapen(item.body, ITEMS[item.kind])):
        yield f"{item.place}{fault.place}", f"{fault.detail}."


def _malformed_reasoning(item: _Item) -> Iterator[Fault]:
    if not is_list(item.body.get("summary")):
        yield f"{item.place}.summary", "Missing required parameter."
    for member in ("summary", "content"):
        for index, part in enumerate(list_or_empty(item.body.get(member))):
            if not isinstance(members_of(part).get("type"), str):
                yield f"{item.place}.{member}[{index}].type", "Missing required parameter."


def _malformed_message(item: _Item) -> Iterator[Fault]:
    role = item.body.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        yield f"{item.place}.role", f"{quoted(role)} is not one of {', '.join(sorted(_ROLES))}."
    status = item.body.get("status")
    if status not in STATUSES:
        yield f"{item.place}.status", f"{quoted(status)} is not a status of a message."
    supported = SAID if role == "assistant" else GIVEN
    yield from _malformed_parts(f"{item.place}.content", item.body.get("content"), supported)


def _malformed_call(item: _Item, input_member: str) -> Iterator[Fault]:
    yield from _malformed_call_id(item)
    yield from _malformed_caller(item)
    name, value = item.body.get("name"), item.body.get(input_member)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield f"{item.place}.name", f"{quoted(name)} does not match '^[a-zA-Z0-9_-]+$'."
    for member in ("content", "output"):
        if item.body.get(member):
            yield f"{item.place}.{member}", "Unknown parameter."
    if not isinstance(value, str):
        place = f"{item.place}.{input_member}"
        yield place, f"expected a string, but got {quoted(value)} instead."


def _unparsable_arguments(items: list[_Item]) -> Iterator[Fault]:
    """Check OR05*: the arguments of a function are the JSON text of an object."""
    for item in items:
        text = item.body.get("arguments") if item.kind == "function_call" else None
        if isinstance(text, str) and not holds_json_object(text):
            yield f"{item.place}.arguments", quoted(text)


def _malformed_parts(place: str, content: object, supported: tuple[str, ...]) -> Iterator[Fault]:
    if isinstance(content, str):
        return
    if not is_list(content):
        yield place, f"expected text or parts, but got {quoted(content)} instead."
        return
    for index, part in enumerate(content):
        kind = members_of(part).get("type")
        if not isinstance(kind, str):
            yield f"{place}[{index}]", f"{quoted(part)} is not a part with a type."
        elif kind not in supported:
            values = ", ".join(supported)
            yield f"{place}[{index}]", f"{quoted(kind)}. Supported values are: {values}."
        elif kind in PARTS and (fault := misshapen(part, PARTS[kind])):
            yield f"{place}[{index}]{fault.place}", f"{fault.detail}."


def _malformed_call_id(item: _Item) -> Iterator[Fault]:
    call_id = item.body.get("call_id")
    if not isinstance(call_id, str) or not call_id:
        yield f"{item.place}.call_id", f"expected a string, but got {quoted(call_id)} instead."
    elif len(call_id) > _MAX_ID_LENGTH:
        yield f"{item.place}.call_id", _too_long(call_id)


def _too_long(call_id: str) -> str:
    return (
        f"string too long. Expected a string with maximum length {_MAX_ID_LENGTH}, "
        f"but got a string with length {len(call_id)} instead."
    )


def _interleaved(items: list[_Item]) -> Iterator[Fault]:
    """Check OR06: no message stands between a call and its output."""
    calls: dict[_Pair, int] = {}  # call to the number of messages before it
    messages = 0
    for item in items:
        if item.kind == "message":
            messages += 1
        elif item.call is not None:
            calls[item.call] = messages
        elif item.output is not None and calls.pop(item.output, messages) != messages:
            yield item.place, listed([item.output[1]])


def _without_annotations(items: list[_Item]) -> Iterator[Fault]:
    """Check OR07: what the assistant said has its annotations, as the API itself sends it."""
    for item in items:
        if item.kind != "message" or item.body.get("role") != "assistant":
            continue
        for index, part in enumerate(list_or_empty(item.body.get("content"))):
            said = members_of(part)
            if said.get("type") == "output_text" and not is_list(said.get("annotations")):
                yield f"{item.place}.content[{index}]", ""


_CHECKS: Final[dict[str, Callable[[list[_Item]], Iterator[Fault]]]] = {
    "OR01": _unanswered,
    "OR02": _outputs_without_calls,
    "OR03": _illegal_item_ids,
    "OR04": _stranded,
    "OR05": _malformed,
    "OR05*": _unparsable_arguments,
    "OR06": _interleaved,
    "OR07": _without_annotations,
}

_CHECKS_OF_CONTINUED: Final = {code: check for code, check in _CHECKS.items() if code != "OR02"}
"""Those of a request whose outputs may answer calls that the server keeps."""
