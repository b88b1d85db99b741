"""`RecordedModel`: with recorded tools a whole run plays again, prompt for prompt."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from eventstore import Conversation, EventStore
from eventstore.providers import ProviderName
from projections import PromptDivergence, RecordedModel, RecordedTools, model_history
from projections.debugging.recorded_model import RecordedModelWarning


def call(name: str, arguments: str) -> dict[str, Any]:
    """Return a call in OpenAI's form."""
    return {"id": name, "type": "function", "function": {"name": "find", "arguments": arguments}}


SCRIPT = (
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [call("a", '{"n": 1}'), call("b", '{"n": 2}')],
    },
    {"role": "assistant", "content": None, "tool_calls": [call("c", '{"n": 2}')]},
    {"role": "assistant", "content": "Both were found."},
)


def find(n: int, tried: list[int]) -> str:
    """Fail at the first try of 2."""
    tried.append(n)
    if tried == [1, 2]:
        raise ConnectionError("carrier down")
    return f"order {n} is lost"


def run_tools(chat: Conversation, tools: Any) -> None:
    """Run what is pending."""
    for tool in chat.tools.values():
        if tool.is_pending:
            try:
                with chat.running(tool.id) as attempt:
                    attempt.complete(tools(**attempt.arguments))
            except Exception:  # noqa: BLE001, S110 - recorded as the call's failure
                pass


def recorded_run(store: EventStore) -> tuple[Conversation, list[Any]]:
    """Return a run against real tools, and the prompts that its model was asked with."""
    chat = store.conversation("recorded")
    chat.add_message("user", "Where are orders 1 and 2?")
    prompts, tried = [], []
    for message in SCRIPT:
        prompts.append(model_history(chat.events()))
        chat.record(message, "openai")
        run_tools(chat, lambda n: find(n, tried))
    return chat, prompts


@pytest.mark.parametrize("provider", get_args(ProviderName))
def test_a_whole_run_plays_again_without_model_and_tools(
    store: EventStore, provider: ProviderName
) -> None:
    """Every prompt is that of the recorded run, byte for byte, with its failure and its ids."""
    recorded, prompts = recorded_run(store)
    model, again = RecordedModel(recorded.events(), provider), store.conversation("again")
    again.add_message("user", "Where are orders 1 and 2?")
    asked = []
    with RecordedTools(recorded.events()) as tools:
        while len(model):
            asked.append(model_history(again.events()))
            response = model.respond(asked[-1].render("openai") if provider == "openai" else None)
            again.record_messages(response, provider, imported=False)
            run_tools(again, tools["find"])
    assert [each.render("openai") for each in asked[:1]] == [prompts[0].render("openai")]
    if provider == "openai":
        assert [p.render(provider) for p in asked] == [p.render(provider) for p in prompts]
    ended = [[type(each.status) for each in chat.tools.values()] for chat in (again, recorded)]
    assert ended[0] == ended[1]
    said = [model_history(chat.events()).turns[-1].parts for chat in (again, recorded)]
    assert said[0] == said[1]
    with pytest.raises(PromptDivergence, match="no further response"):
        model.respond()


def test_another_prompt_is_a_divergence(store: EventStore) -> None:
    """Strict mode raises with the difference; lenient mode warns, and answers as recorded."""
    recorded, prompts = recorded_run(store)
    other = {"messages": [{"role": "user", "content": "Where is order 3?"}]}
    model = RecordedModel(recorded.events())
    with pytest.raises(PromptDivergence, match="before version 2 is not that") as caught:
        model.respond(other)
    assert caught.value.version == 2
    assert '$.content: "Where are orders 1 and 2?" became "Where is order 3?"' in str(caught.value)
    assert len(model) == 3
    assert model.respond(prompts[0].render("openai")) == [SCRIPT[0]]
    lenient = RecordedModel(recorded.events(), mode="lenient")
    with pytest.warns(RecordedModelWarning, match="not that of the recorded run"):
        assert lenient.respond(other) == [SCRIPT[0]]
    assert [each.version for each in lenient.divergences] == [2]


def test_bad_arguments_are_refused(store: EventStore) -> None:
    """The mode and the provider are named."""
    with pytest.raises(ValueError, match="mode is 'live': pass one of strict, lenient"):
        RecordedModel([], mode="live")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="provider is 'x'"):
        RecordedModel([], "x")  # type: ignore[arg-type]
