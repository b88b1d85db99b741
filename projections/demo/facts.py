"""What the log of the demo says afterwards: the next prompts, the statistics, the repairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from eventstore import Conversation, Tool, Violation, validate
from eventstore.domain.json_types import JsonObject
from eventstore.domain.one_line import one_line
from eventstore.providers import ProviderName
from projections.debugging.request_outline import message_texts
from projections.demo.story import FoundRepair, Story
from projections.history.entries import Repair
from projections.history.projection import model_history
from projections.statistics.projection import error_statistics
from projections.statistics.results import Statistics

PROVIDERS: tuple[ProviderName, ...] = ("openai", "anthropic")
SHOWN_CHARACTERS = 150
"""Characters of a message that a line shows."""


class PlacedRepair(msgspec.Struct, frozen=True):
    """A repair of a prompt, and where it was first needed."""

    where: str
    repair: Repair


class Facts(msgspec.Struct, frozen=True):
    """What is known of a conversation; `prompts` and `violations` are by provider."""

    conversation_id: str
    events: int
    prompts: dict[str, JsonObject]
    violations: dict[str, list[Violation]]
    statistics: Statistics
    repairs: list[PlacedRepair]


def facts_of(
    chat: Conversation,
    needs_approval: Callable[[Tool], bool],
    repairs: Iterable[FoundRepair],
) -> Facts:
    """Return what the log says; `repairs` are those of the prompts so far."""
    history = model_history(chat.events(), needs_approval=needs_approval)
    prompts: dict[str, JsonObject] = {name: history.render(name) for name in PROVIDERS}
    found = list(repairs)
    for name in PROVIDERS:
        found += [(f"the next prompt, {name}", repair) for repair in history.repairs_for(name)]
    return Facts(
        conversation_id=chat.id,
        events=chat.version,
        prompts=prompts,
        violations={name: validate(prompts[name]["messages"], name) for name in PROVIDERS},
        statistics=error_statistics(chat.events()),
        repairs=list(_each_once(found)),
    )


def _each_once(found: Iterable[FoundRepair]) -> Iterator[PlacedRepair]:
    """Yield each repair once, with the place where it was first needed."""
    seen: set[Repair] = set()
    for where, repair in found:
        bare = msgspec.structs.replace(repair, versions=())
        if bare not in seen:
            seen.add(bare)
            yield PlacedRepair(where, repair)


def tell(facts: Facts, story: Story) -> None:
    """Tell the facts as the last chapters of the story."""
    for name, prompt in facts.prompts.items():
        broken = facts.violations[name]
        story.chapter(f"The next prompt for {name} ({broken[0].message if broken else 'valid'})")
        for line in _prompt_lines(prompt):
            story.line(line)
    story.chapter("Error statistics")
    for paragraph in str(facts.statistics).split("\n\n"):
        if not paragraph.startswith(("TIME", "CALLS")):
            for line in paragraph.splitlines():
                story.line(line)
    story.chapter("What was repaired in the prompts, and why")
    for placed in facts.repairs:
        repair = placed.repair
        story.line(
            f"{placed.where}: {repair.what} {repair.call_id or ''} ({repair.rule}): {repair.why}"
        )


def _prompt_lines(prompt: JsonObject) -> Iterator[str]:
    if "system" in prompt:
        yield one_line(f"(system)   {prompt['system']}", SHOWN_CHARACTERS)
    for message in prompt["messages"]:
        yield one_line(
            f"{message['role']:<10} {'  '.join(message_texts(message))}", SHOWN_CHARACTERS
        )
