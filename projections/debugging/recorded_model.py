"""`RecordedModel`: the responses of a recorded run, in their order, in place of the model.

1. A response is a turn of the assistant: its words and its calls, with the ids that they had.
2. Before each response the prompt that is asked with is compared with that of the recorded run at
   the same place. Another prompt is a divergence: the model would perhaps have said something else.
3. `strict` raises on a divergence; `lenient` warns, and answers as recorded.

With `RecordedTools` a whole run plays again without a network.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Unpack, get_args

from eventstore import MessageAdded, Recorded, ToolPending
from eventstore.domain.json_types import JsonObject, is_json_list, is_json_object
from eventstore.providers import AnyProvider, list_key, render
from projections.debugging.prompt_diff import PromptDiff, prompt_diff
from projections.history.options import HistoryKeywords
from projections.history.projection import model_history

Mode = Literal["strict", "lenient"]


class RecordedModelWarning(UserWarning):
    """A prompt that is not that of the recorded run was answered all the same."""


class PromptDivergence(AssertionError):
    """The model was asked otherwise than in the recorded run, or more often.

    `version` is that of the recorded response; `diff` compares the recorded prompt with the one
    asked with. Both are None if the run has no further response.
    """

    def __init__(self, problem: str, version: int | None, diff: PromptDiff | None) -> None:
        super().__init__(problem if diff is None else f"{problem}\n{diff}")
        self.version = version
        self.diff = diff


class RecordedModel:
    """The model of a recorded run.

        model = RecordedModel(recorded.events(), "openai")
        prompt = model_history(chat.events()).render("openai")
        chat.record_messages(model.respond(prompt), "openai")

    `options` are those of `model_history` that the run made its prompts with.

    Raises:
        ValueError: the provider, the mode or an option is unknown.
    """

    def __init__(
        self,
        events: Iterable[Recorded],
        provider: AnyProvider = "openai",
        mode: Mode = "strict",
        **options: Unpack[HistoryKeywords],
    ) -> None:
        if mode not in get_args(Mode):
            raise ValueError(f"mode is {mode!r}: pass one of {', '.join(get_args(Mode))}")
        list_key(provider)
        self.divergences: list[PromptDivergence] = []
        self._events: Sequence[Recorded] = tuple(events)
        self._provider: AnyProvider = provider
        self._mode = mode
        self._options = options
        self._turns = list(_turns(self._events))
        self._place = 0

    def __len__(self) -> int:
        """Return how many responses are left."""
        return len(self._turns) - self._place

    def respond(self, prompt: Mapping[str, Any] | None = None) -> list[JsonObject]:
        """Return the next response: the provider's messages, for `record_messages`.

        It is one message; for OpenAI Responses, the items of the output. `prompt` is what the model
        is asked with, as `render` returns it; without it nothing is compared.

        Raises:
            PromptDivergence: the prompt is another one, or the run has no further response.
        """
        if self._place == len(self._turns):
            raise PromptDivergence("the recorded run has no further response", None, None)
        start, end = self._turns[self._place]
        if prompt is not None:
            self._compare(start, prompt)
        self._place += 1
        turn = model_history(self._events[:end], collapse="none", prefill=True).turns[-1]
        shown = render([turn], self._provider, prefill=True).arguments[list_key(self._provider)]
        return list(_said(shown))

    def _compare(self, start: int, prompt: Mapping[str, Any]) -> None:
        before = model_history(self._events[:start], **self._options).render(self._provider)
        found = prompt_diff(before, prompt)
        if not found:
            return
        version = self._events[start].version
        problem = f"the prompt before version {version} is not that of the recorded run:"
        divergence = PromptDivergence(problem, version, found)
        self.divergences.append(divergence)
        if self._mode == "strict":
            raise divergence
        warnings.warn(str(divergence), RecordedModelWarning, stacklevel=3)


def _turns(events: Sequence[Recorded]) -> Iterator[tuple[int, int]]:
    """Yield where each turn of the assistant begins among the events, and where its calls end."""
    start: int | None = None
    number: int | None = None
    for place, recorded in enumerate(events):
        event = recorded.event
        if isinstance(event, ToolPending) or (
            isinstance(event, MessageAdded) and event.role == "assistant"
        ):
            if start is not None and event.turn is not None and event.turn == number:
                continue
            if start is not None:
                yield start, place
            start, number = place, event.turn
        elif start is not None:
            yield start, place
            start = None
    if start is not None:
        yield start, len(events)


def _said(shown: object) -> Iterator[JsonObject]:
    """Yield what the model said, of the messages or items that show its turn."""
    for item in shown if is_json_list(shown) else ():
        if not is_json_object(item):
            continue
        is_output = str(item.get("type")).endswith("_output")
        if item["role"] in ("assistant", "model") if "role" in item else not is_output:
            yield item
