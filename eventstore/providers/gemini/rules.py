"""The rules of Google Gemini, GE01 to GE08, over the `contents` of a request.

Keys are read as the REST interface writes them (`functionCall`) and as the SDK dumps them
(`function_call`); a member that is null counts as absent. What a content holds decides, not its
role: a content with a functionCall part is a call content, one with a functionResponse part
answers. The API was seen to take the responses to one call content from several contents in a row;
older models want them in one, which is GE01 with a star. It was also seen to take calls from
several contents in a row, where ids or signatures say which are which: that is GE03 with a star.

Gemini 3 and later sign what they write, and refuse unsigned calls: where a history has a signature,
the calls of its current turn need theirs. Where it has none, older models made it, which take it as
it is; whether it goes to a newer one cannot be seen in it.

A fault without a row of its own in the table is reported under the nearest one: GE04 also covers
calls that share an id, GE05 calls and responses that are not objects, GE07 contents and parts that
are not objects, parts with members of another API or with more than one datum, calls that the user
makes, responses that the model gives, and a `text` of another type.

The reference accepts a content without a role where it is the only one, and null for the args of a
call: Vertex asks for the role, which is GE07 with a star, and null is GE05 with a star.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from eventstore.providers.gemini.shapes import ALONE, DATA, LEGAL_NAME, MEMBERS, PartShape
from eventstore.providers.rules_reader import (
    Members,
    apply_checks,
    is_list,
    is_object,
    list_or_empty,
    members_of,
    quoted,
    repeated,
)
from eventstore.providers.shapes import misshapen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from eventstore.providers.rule_book import Finding, Rule
    from eventstore.providers.rules_reader import Fault

__all__ = ["RULES", "findings"]

_ONE_CONTENT: Final = (
    "put one functionResponse part for each call into the one content right after the calls"
)

RULES: Final[dict[str, Rule]] = {
    "GE01": (
        "hard",
        (
            "{place}: Please ensure that the number of function response parts is equal to the "
            "number of function call parts of the function call turn. ({detail})"
        ),
        _ONE_CONTENT,
    ),
    "GE01*": (
        "strict",
        (
            "{place}: Please ensure that the number of function response parts is equal to the "
            "number of function call parts of the function call turn. ({detail})"
        ),
        _ONE_CONTENT,
    ),
    "GE02": (
        "hard",
        (
            "{place}: Please ensure that function response turn comes immediately after a "
            "function call turn."
        ),
        "move the response to directly after its call, or keep what it says as text",
    ),
    "GE03": (
        "hard",
        (
            "{place}: Please ensure that function call turn comes immediately after a user turn "
            "or after a function response turn."
        ),
        "join the call with the model content before it, or put a user content between them",
    ),
    "GE03*": (
        "strict",
        (
            "{place}: Please ensure that function call turn comes immediately after a user turn "
            "or after a function response turn."
        ),
        "join the calls in one content of the model",
    ),
    "GE04": (
        "hard",
        "{place}: the function response matches no function call of the turn before it: {detail}",
        "give the response the name, and the id where there is one, of the call that it answers",
    ),
    "GE05": (
        "hard",
        "Invalid value at '{place}': {detail}",
        "name the function, and send its args and its response as objects; wrap any other value",
    ),
    "GE05*": (
        "strict",
        "Invalid value at '{place}': {detail}",
        "send the args as an object, or leave them out",
    ),
    "GE06": (
        "strict",
        (
            "Unable to submit request because function call {detail} is missing a "
            "thought_signature. (at {place})"
        ),
        (
            "send the call with the signature it came with; where that is unknown, with "
            "'skip_thought_signature_validator'"
        ),
    ),
    "GE07": (
        "hard",
        "Invalid value at '{place}': {detail}",
        (
            "send every content with role user or model and at least one part, each part with one "
            "datum and the members that the API knows; calls are the model's, responses the user's"
        ),
    ),
    "GE07*": (
        "strict",
        "{place}: Please use a valid role: user, model.",
        "send every content with role user or model",
    ),
    "GE08": (
        "strict",
        "{place}: a function response turn holds other parts than function responses",
        "send the other parts as a content of their own, after the responses",
    ),
}
"""Code to level, the API's words and the remedy."""

_ROLES: Final = frozenset({"user", "model", "function"})


def findings(messages: object) -> Iterator[Finding]:
    """Yield code, place and detail of everything in `messages` that breaks a rule."""
    if is_list(messages):
        contents = [_content(index, content) for index, content in enumerate(messages)]
        yield from apply_checks(_CHECKS, contents)
    else:
        yield "GE07", "contents", f"expected a list of contents, but got {quoted(messages)}"


class _Part(NamedTuple):
    """A part; a value that is not an object is read as a part without members."""

    place: str
    raw: object
    call: object
    """What its functionCall member holds, or None."""
    response: object
    """What its functionResponse member holds, or None."""
    is_signed: bool


class _Content(NamedTuple):
    """A content, with the parts that call and those that respond."""

    place: str
    raw: object
    role: object
    parts: list[_Part]
    calls: list[_Part]
    responses: list[_Part]


def _content(index: int, raw: object) -> _Content:
    body = members_of(raw)
    place = f"contents[{index}]"
    parts = [
        _part(f"{place}.parts[{number}]", part)
        for number, part in enumerate(list_or_empty(body.get("parts")))
    ]
    calls = [part for part in parts if part.call is not None]
    responses = [part for part in parts if part.response is not None]
    return _Content(place, raw, body.get("role"), parts, calls, responses)


def _part(place: str, raw: object) -> _Part:
    body = members_of(raw)
    call = _either(body, "functionCall", "function_call")
    response = _either(body, "functionResponse", "function_response")
    signature = _either(body, "thoughtSignature", "thought_signature")
    return _Part(place, raw, call, response, bool(signature))


def _either(body: Members, camel_case: str, snake_case: str) -> object:
    value = body.get(camel_case)
    return body.get(snake_case) if value is None else value


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


class _Turn(NamedTuple):
    """Contents in a row with calls, and those after them that hold the responses."""

    call_contents: list[_Content]
    answers: list[_Content]

    @property
    def place(self) -> str:
        return self.call_contents[0].place

    @property
    def calls(self) -> list[_Part]:
        return [part for content in self.call_contents for part in content.calls]

    @property
    def responses(self) -> list[_Part]:
        return [part for content in self.answers for part in content.responses]


def _turns(contents: list[_Content]) -> list[_Turn]:
    turns: list[_Turn] = []
    waiting = 0
    before: _Content | None = None
    for content in contents:
        goes_on = _makes_calls_alone(before) and _makes_calls_alone(content)
        if waiting > 0 and content.responses:
            turns[-1].answers.append(content)
            waiting -= len(content.responses)
        elif not goes_on:
            waiting = 0
        if content.calls and goes_on:
            turns[-1].call_contents.append(content)
        elif content.calls:
            turns.append(_Turn([content], []))
        waiting += len(content.calls)
        before = content
    return turns


def _makes_calls_alone(content: _Content | None) -> bool:
    """Return whether a content makes calls, and does not answer others."""
    return content is not None and bool(content.calls) and not content.responses


def _miscounted(contents: list[_Content]) -> Iterator[Fault]:
    """Check GE01: a content with calls is followed by as many responses."""
    for turn in _turns(contents):
        asked, answered = len(turn.calls), len(turn.responses)
        if asked != answered:
            yield turn.place, f"{asked} calls, {answered} responses"


def _split(contents: list[_Content]) -> Iterator[Fault]:
    """Check GE01*: these responses stand in one content."""
    for turn in _turns(contents):
        if len(turn.answers) > 1 and len(turn.calls) == len(turn.responses):
            yield turn.place, f"{len(turn.answers)} contents respond"


def _responses_without_calls(contents: list[_Content]) -> Iterator[Fault]:
    """Check GE02: a content with responses follows one with calls, and answers them."""
    asked = {content.place for turn in _turns(contents) for content in turn.answers}
    for content in contents:
        if content.responses and content.place not in asked:
            yield content.place, ""


def _misplaced_calls(contents: list[_Content]) -> Iterator[Fault]:
    """Check GE03: a content with calls directly follows a user content, or one with responses.

    It may follow other calls where ids or signatures say which are which.
    """
    for before, content in zip([None, *contents], contents, strict=False):
        goes_on = before is not None and before.role == "model" and not before.responses
        if content.calls and (
            before is None or (goes_on and not (before.calls and _is_marked(before, content)))
        ):
            yield content.place, ""


def _is_marked(before: _Content, content: _Content) -> bool:
    return any(
        part.is_signed or _text(members_of(part.call).get("id"))
        for part in (*before.calls, *content.calls)
    )


def _calls_in_a_row(contents: list[_Content]) -> Iterator[Fault]:
    """Check GE03*: calls that no response separates are made in one content."""
    for turn in _turns(contents):
        for before, content in pairwise(turn.call_contents):
            if _is_marked(before, content):
                yield content.place, ""


def _mismatched(contents: list[_Content]) -> Iterator[Fault]:
    """Check GE04: the responses bear the names of the calls, and their ids where there are any."""
    for turn in _turns(contents):
        twice = {part.place for part in repeated(_identified(turn.calls))}
        yield from ((f"{place}.functionCall.id", "an id that another call has") for place in twice)
        if turn.answers and not twice:
            yield from _mismatches(turn.calls, turn.responses)


class _CallId(NamedTuple):
    """The id of a call, with the place of its part."""

    place: str
    key: object


def _identified(calls: list[_Part]) -> Iterator[_CallId]:
    for part in calls:
        if (call_id := _text(members_of(part.call).get("id"))) is not None:
            yield _CallId(part.place, call_id)


def _mismatches(asked: list[_Part], responses: list[_Part]) -> Iterator[Fault]:
    calls = [members_of(part.call) for part in asked]
    names = Counter(_text(call.get("name")) for call in calls)
    ids = {_text(call.get("id")): _text(call.get("name")) for call in calls}
    ids.pop(None, None)
    known = set(names)
    is_complete = len(calls) == len(responses)  # otherwise GE01 says what is wrong
    answered: set[str] = set()
    for part in responses:
        response = members_of(part.response)
        name, call_id = _text(response.get("name")), _text(response.get("id"))
        names[name] -= 1
        is_unknown = names[name] < 0 if is_complete else name not in known
        if name is not None and is_unknown:
            yield f"{part.place}.functionResponse.name", quoted(name)
        elif call_id is not None and ids:
            if call_id not in ids or ids[call_id] != name or (is_complete and call_id in answered):
                yield f"{part.place}.functionResponse.id", quoted(call_id)
            answered.add(call_id)


def _untyped(contents: list[_Content]) -> Iterator[Fault]:
    """Check GE05: calls and responses are objects with a name, and hold objects."""
    for content in contents:
        for part in content.parts:
            if part.call is not None:
                place = f"{part.place}.functionCall"
                yield from _untyped_members(place, part.call, "args", required=False)
            if part.response is not None:
                place = f"{part.place}.functionResponse"
                yield from _untyped_members(place, part.response, "response", required=True)


def _null_args(contents: list[_Content]) -> Iterator[Fault]:
    """Check GE05*: the args of a call are not null; the SDK, in its spelling, does not send it."""
    for content in contents:
        for part in content.calls:
            body = members_of(members_of(part.raw).get("functionCall"))
            if "args" in body and body["args"] is None:
                yield f"{part.place}.functionCall.args", "expected an object, but got null"


def _untyped_members(place: str, body: object, key: str, *, required: bool) -> Iterator[Fault]:
    if not is_object(body):
        yield place, f"expected an object, but got {quoted(body)}"
        return
    if not LEGAL_NAME.fullmatch(_text(body.get("name")) or ""):
        yield f"{place}.name", f"expected a function name, but got {quoted(body.get('name'))}"
    value = body.get(key)
    if not is_object(value) and (required or value is not None):
        yield f"{place}.{key}", f"expected an object, but got {quoted(value)}"


def _unsigned(contents: list[_Content]) -> Iterator[Fault]:
    """Check GE06: where models sign, the first call of each content of the current turn is signed.

    The current turn begins with the last content that the user wrote.
    """
    if not any(part.is_signed for content in contents for part in content.parts):
        return
    start = 0
    for index, content in enumerate(contents):
        if content.role != "model" and content.parts and not content.responses:
            start = index
    for content in contents[start:]:
        for part in content.calls[:1]:
            if not part.is_signed:
                yield part.place, quoted(members_of(part.call).get("name"))


def _malformed(contents: list[_Content]) -> Iterator[Fault]:
    """Check GE07: contents have the role user, model or function, and hold something."""
    for content in contents:
        if not is_object(content.raw):
            yield content.place, f"expected an object, but got {quoted(content.raw)}"
            continue
        known = isinstance(content.role, str) and content.role in _ROLES
        if not known and not (content.role is None and len(contents) == 1):
            yield f"{content.place}.role", "Please use a valid role: user, model."
        if not content.parts:
            yield f"{content.place}.parts", "contents.parts must not be empty."
        for part in content.parts:
            yield from _malformed_part(part)
            if part.call is not None and content.role in ("user", "function"):
                yield f"{part.place}.functionCall", "only the model calls functions"
            if part.response is not None and content.role == "model":
                yield f"{part.place}.functionResponse", "only the user gives responses"


def _without_role(contents: list[_Content]) -> Iterator[Fault]:
    """Check GE07*: a content has a role, even where it is the only one, as Vertex wants it."""
    for content in contents:
        if len(contents) == 1 and is_object(content.raw) and content.role is None:
            yield f"{content.place}.role", ""


def _malformed_part(part: _Part) -> Iterator[Fault]:
    if not is_object(part.raw):
        yield part.place, f"expected an object, but got {quoted(part.raw)}"
        return
    held = {key for key, value in part.raw.items() if value is not None}
    unknown = [key for key in part.raw if key in held and key not in MEMBERS]
    data = [rest for rest, sdk in DATA if rest in held or sdk in held]
    if unknown:
        yield part.place, f"Unknown name {quoted(unknown[0])}: Cannot find field."
    elif not data and not (held and held <= ALONE):
        yield part.place, "required oneof field 'data' must have one initialized field"
    elif len(data) > 1:
        yield part.place, f"oneof field 'data' is already set. Cannot set '{data[1]}'"
    elif fault := misshapen(part.raw, PartShape):
        yield f"{part.place}{fault.place}", fault.detail


def _mixed(contents: list[_Content]) -> Iterator[Fault]:
    """Check GE08: a content with responses holds nothing else."""
    for content in contents:
        if content.responses and len(content.parts) > len(content.responses):
            yield content.place, ""


_CHECKS: Final[dict[str, Callable[[list[_Content]], Iterator[Fault]]]] = {
    "GE01": _miscounted,
    "GE01*": _split,
    "GE02": _responses_without_calls,
    "GE03": _misplaced_calls,
    "GE03*": _calls_in_a_row,
    "GE04": _mismatched,
    "GE05": _untyped,
    "GE05*": _null_args,
    "GE06": _unsigned,
    "GE07": _malformed,
    "GE07*": _without_role,
    "GE08": _mixed,
}
