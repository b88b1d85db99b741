"""The rules that make a history valid, one file per provider, and `validate`, which applies them.

Nothing here is shared with what renders or repairs a history, so that no mistake can be shared
either. A level says who refuses: `hard` is the provider's own API, `strict` some compatible server,
an older model or a literal reading of the documentation.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal, Protocol, cast

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

__all__ = ["PROVIDERS", "Level", "RuleBook", "Violation", "is_valid", "validate"]

Level = Literal["hard", "strict"]


class Violation(msgspec.Struct, frozen=True):
    """One rule that a history breaks, and where."""

    code: str
    level: Level
    place: str
    """Path into the argument, such as `messages[3].content[0]`."""
    message: str
    """What the provider would say."""
    remedy: str
    """How to mend it."""


class RuleBook(Protocol):
    """What one provider accepts: a table of rules, and the checks that apply it."""

    @property
    def RULES(self) -> Mapping[str, tuple[Level, str, str]]:  # noqa: N802
        """Code to level, the provider's words and the remedy.

        The words are a format string over `place`, `path` (the place in dots) and `detail`. A
        star after a code is the part of the rule that is held at another level.
        """

    @property
    def TOLERATED(self) -> Collection[str]:  # noqa: N802
        """Codes of the strict rules without which the API itself answers."""

    def findings(self, messages: object) -> Iterator[tuple[str, str, str]]:
        """Code, place and detail of everything that breaks a rule."""


PROVIDERS: Final[dict[str, str | RuleBook]] = {
    "anthropic": "eventstore.wire.rules.anthropic",
    "bedrock": "eventstore.wire.rules.bedrock",
    "gemini": "eventstore.wire.rules.gemini",
    "mistral": "eventstore.wire.rules.mistral",
    "ollama": "eventstore.wire.rules.ollama",
    "openai": "eventstore.wire.rules.openai",
    "openai-responses": "eventstore.wire.rules.responses",
}
"""Provider to its rule book, or that module's name until it is asked for."""


def validate(messages: object, provider: str) -> list[Violation]:
    """Every rule that `messages` breaks, in the order of the rule codes, then of the places.

    Total: whatever `messages` is, it is judged, never raised over, and left as it was. A list is
    valid for the provider's own API when nothing of level `hard` is reported. An empty list breaks
    no rule here, although no provider answers one: there is nothing in it to mend.

    Pass the list alone (Gemini's contents, the input of OpenAI Responses, else the messages): a
    system prompt that is a parameter of its own is no part of it. The SDK's own objects in it are
    read as what the SDK would send for them.

    Raises `ValueError` when no rules are known for `provider`.
    """
    book = _book(provider)
    return [_violation(book, *finding) for finding in book.findings(_sent(messages))]


def is_valid(messages: object, provider: str) -> bool:
    """Whether `messages` break no rule that repair would mend: `validate`, stopped at the first.

    What a book tolerates is broken in requests that the provider's own API answers.
    """
    book = _book(provider)
    return all(code in book.TOLERATED for code, _, _ in book.findings(messages))


def _sent(messages: object) -> object:
    """A list as the SDKs send it: tuples are lists, and their objects say what is in them."""
    if not isinstance(messages, list | tuple):
        return messages
    return [_dumped(message) for message in messages]


def _dumped(value: object) -> object:
    if type(value) is dict:
        for key in ("content", "parts"):
            held = value.get(key)
            if isinstance(held, list) and not all(type(each) in _PLAIN for each in held):
                value = {**value, key: [_dumped(each) for each in held]}
        return value
    try:
        dump = getattr(value, "model_dump", None)
        fields = dump(mode="json", exclude_none=True) if callable(dump) else value
    except Exception:  # noqa: BLE001 - foreign code
        return value
    return fields


_PLAIN = frozenset({dict, str})


def _book(provider: str) -> RuleBook:
    book = PROVIDERS.get(provider)
    if book is None:
        known = ", ".join(sorted(PROVIDERS))
        raise ValueError(f"no rules for provider {provider!r}: choose one of {known}")
    if isinstance(book, str):
        book = PROVIDERS[provider] = cast("RuleBook", import_module(book))
    return book


def _violation(book: RuleBook, code: str, place: str, detail: str) -> Violation:
    level, words, remedy = book.RULES[code]
    path = place.replace("[", ".").replace("]", "")
    message = words.format(place=place, path=path, detail=detail)
    return Violation(code.rstrip("*"), level, place, message, remedy)
