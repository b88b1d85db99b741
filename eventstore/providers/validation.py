"""`validate`, which judges a history by a provider's rules.

Each provider's rules stand in its own rule book. The rules share no code with what renders or
repairs a history, so that they cannot share a mistake: only the types that an API declares. The
level of a rule says what refuses a history that breaks it: `hard` is the provider's own API;
`strict` is a compatible server, an older model or a literal reading of the documentation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import msgspec

from eventstore.providers import server_rules
from eventstore.providers.models import ModelRules
from eventstore.providers.registry import AnyProvider, model_rules, rule_book
from eventstore.providers.rule_book import Finding, Level, RuleBook
from eventstore.providers.rules_reader import is_list, is_object

__all__ = ["Level", "RuleBook", "Violation", "is_valid", "validate"]


class Violation(msgspec.Struct, frozen=True):
    """A rule that a history breaks, and the place where it does."""

    code: str
    level: Level
    place: str
    """Path into the argument, such as `messages[3].content[0]`."""
    message: str
    """What the provider would say."""
    remedy: str
    """How to mend it."""


def validate(
    messages: object, provider: AnyProvider, *, model: str | None = None
) -> list[Violation]:
    """Return every rule that `messages` breaks, in the order of the rule codes, then of the places.

    Whatever `messages` is, it is judged and not changed, and no value of it raises an error. A list
    is valid for the provider's own API when no violation has the level `hard`. An empty list breaks
    no rule here, although every provider refuses it: it holds nothing to repair.

    Args:
        messages: the message list alone (Gemini's contents, the input of OpenAI Responses, and the
            messages of all others), without a system prompt that is a parameter of its own. Objects
            of the provider's SDK are read as the JSON that the SDK would send. For OpenAI
            Responses and Anthropic also a whole request that continues what the server keeps
            (`previous_response_id`, `conversation`, `thread`), and may answer calls there.
        provider: the name of the provider.
        model: the name of the model, also as a gateway writes it (`groq/…`, `us.anthropic.…`). What
            is known of it decides strict rules; an unknown name is treated like no name.

    Raises:
        ValueError: no rules are known for `provider`.
    """
    known = model_rules(provider, model)
    return [_violation(known, *finding) for finding in _findings(_as_sent(messages), known)]


def is_valid(messages: object, provider: AnyProvider, *, model: str | None = None) -> bool:
    """Return whether `messages` break no rule that repair would mend.

    It stops at the first violation. Tolerated rules do not count: the provider's own API answers
    requests that break them.
    """
    known = model_rules(provider, model)
    return all(code in known.tolerates for code, _, _ in _findings(messages, known))


def _findings(messages: object, known: ModelRules) -> Iterator[Finding]:
    """Yield what breaks a rule of the provider, or of the model or server."""
    for finding in rule_book(known.provider).findings(messages):
        if finding[0] not in known.accepts:
            yield finding
    if known.refuses:
        yield from server_rules.findings(messages, known.refuses)


def _as_sent(messages: object) -> object:
    """Return a list as the SDK sends it: tuples as lists, and SDK objects as JSON objects."""
    if is_object(messages):  # a whole request
        return {key: v if is_object(v) else _as_sent(v) for key, v in messages.items()}
    if not isinstance(messages, list | tuple):
        return messages
    return [_as_json(message) for message in cast("Sequence[object]", messages)]


def _as_json(value: object) -> object:
    if not is_object(value):
        return _dumped(value)
    for key in ("content", "parts"):
        parts = value.get(key)
        if is_list(parts) and not all(isinstance(part, (dict, str)) for part in parts):
            value = {**value, key: [_as_json(part) for part in parts]}
    return value


def _dumped(value: object) -> object:
    try:
        dump = getattr(value, "model_dump", None)
        return dump(mode="json", by_alias=True, exclude_none=True) if callable(dump) else value
    except Exception:  # noqa: BLE001 - the object's own code, which may raise anything
        return value


def _violation(known: ModelRules, code: str, place: str, detail: str) -> Violation:
    rules = server_rules.RULES if code in server_rules.RULES else rule_book(known.provider).RULES
    level, words, remedy = rules[code]
    level = "hard" if code in known.refuses else level
    path = place.replace("[", ".").replace("]", "")
    message = words.format(place=place, path=path, detail=detail)
    return Violation(code.rstrip("*"), level, place, message, remedy)
