"""Every type that an SDK declares for messages comes back from the log as its wire has it.

The types are those of the installed SDK: each version brings its own. A type of a new version that
does not come back fails here by its name.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest
from support.more_sdk_cases import WIRES

from eventstore import EventStore, validate
from eventstore.providers import ProviderName, list_key
from projections import model_history, repair_messages

if TYPE_CHECKING:
    from support.sdk_cases import Case

EXCEPTIONS: Mapping[tuple[str, str], str] = {
    ("openai", "ChatCompletionFunctionMessageParam"): (
        "the former form of a result has no id: it goes back as the result of a call"
    ),
    ("openai-responses", "EasyInputMessageParam"): (
        "the type gives the parts of a user to the assistant, too, from whom the API takes others"
    ),
    ("openai-responses", "Reasoning"): (
        "openai before 1.68 has no `summary`, without which the API takes no reasoning: it gets one"
    ),
}
"""Wire and type to the reason why values of this type change.

What cannot stand beside the rest of a message is left out where the message is made: `LEFT_OUT` in
`sdk_cases`. A version of an SDK that does not have a type has no such exception.
"""


def forms(case: Case) -> Iterator[tuple[str, Any]]:
    """Yield the objects of a case, and their dumps by the names of Python, or by the wire's."""
    for made in case.objects:
        yield "object", made
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some SDKs complain of their own objects
            dumps = (
                ("dump", made.model_dump()),
                ("dump by the wire", made.model_dump(mode="json", by_alias=True)),
            )
        yield from dumps


def prompt_after(
    case: Case, store: EventStore, wire: ProviderName, name: str, response: Any = None
) -> Any:
    """Return the prompt after a case, or with `response` in the place of its messages."""
    chat = store.conversation(name)
    if case.before:
        chat.record_messages(case.before, wire)
    if response is None:
        chat.record_messages(case.messages, wire, imported=False)
    else:
        chat.record(response, wire)
    if case.after:
        chat.record_messages(case.after, wire)
    return model_history(chat.events()).render(wire)[list_key(wire)]


def without_nothing(value: Any) -> Any:
    """Return a value without members that are None, which dumps have for all that is not there."""
    if isinstance(value, dict):
        return {key: without_nothing(each) for key, each in value.items() if each is not None}
    return [without_nothing(each) for each in value] if isinstance(value, list) else value


def holds(messages: Any, said: Any, *, in_order: bool) -> bool:
    """Return whether messages hold a value, byte for byte; `in_order` of its members, too."""
    if in_order:
        return json.dumps(said) in json.dumps(messages)
    return json.dumps(said, sort_keys=True) in json.dumps(without_nothing(messages), sort_keys=True)


def lost_of(case: Case, store: EventStore, wire: ProviderName, name: str) -> Iterator[str]:
    """Yield how a value does not come back; `name` is that of a new conversation."""
    if not holds(prompt_after(case, store, wire, name), case.said, in_order=True):
        yield "recorded as a dict"
    for form, response in forms(case):
        by_wire = case.spelled is None or form != "dump"
        said = case.said if by_wire else case.spelled
        shown = prompt_after(case, store, wire, f"{name} {form}", response)
        if not holds(shown, said, in_order=False):
            yield f"recorded as {form}"
    given = [*case.before, *case.messages, *case.after]
    repaired = repair_messages(given, wire)
    if repaired.repairs or repaired.messages != given:
        yield f"repaired: {repaired}"
    yield from (f"refused: {found}" for found in validate(given, wire) if found.level == "hard")


@pytest.mark.parametrize("wire", sorted(WIRES))
def test_every_member_of_every_type_comes_back(wire: ProviderName) -> None:
    """Objects, their dumps and dicts, through record, log and prompt, and through the repair."""
    lost: dict[str, str] = {}
    seen: set[str] = set()
    with EventStore.open("sqlite://") as store:
        for number, case in enumerate(WIRES[wire]()):
            seen.add(case.name)
            for how in lost_of(case, store, wire, f"{number}"):
                lost.setdefault(case.name, f"{how}: {json.dumps(case.said)}")
    excepted = {name for other, name in EXCEPTIONS if other == wire and name in seen}
    assert {name: how for name, how in lost.items() if name not in excepted} == {}
    assert excepted <= lost.keys()
