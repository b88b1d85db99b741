"""What is known of single models and servers: the table, and what it does to requests."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from support.transcripts import HISTORIES, HISTORIES_OF_REPORTS

from eventstore import EventStore, validate
from eventstore.providers import (
    PROVIDERS,
    ModelFact,
    is_valid,
    list_key,
    register,
    registry,
    server_rules,
)
from eventstore.providers.models import FACTS, rules_of_model
from eventstore.providers.openai import rules as openai_rules
from eventstore.providers.openai.adapter import OpenAIAdapter
from eventstore.providers.registry import model_rules, rule_book
from projections import model_history, repair_messages

OLD = (
    "claude-3-5-sonnet-20241022",
    "claude-sonnet-4-20250514",
    "claude-opus-4-1@20250805",
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "anthropic/claude-3.5-haiku",
    "claude-2.1",
    "claude-opus-4",
    "claude-4-sonnet-20250514",
)
NEW = (
    "claude-opus-4-6",
    "claude-sonnet-4-6-20260514",
    "anthropic/claude-opus-4.7",
    "global.anthropic.claude-opus-4-8-v1:0",
    "claude-opus-5",
    "claude-sonnet-5",
    "claude-fable-5",
    "claude-mythos-preview",
    "claude-haiku-5-5-20261001",
    "CLAUDE-OPUS-4-8",
)
SAYS = {"role": "assistant", "content": "I am on it."}
ASKS = {"role": "user", "content": "Go on."}
CALL = {"id": "a", "type": "function", "function": {"name": "get", "arguments": "{}"}}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "done"}


def codes(messages: list[Any], provider: Any, model: str | None) -> list[tuple[str, str]]:
    """Return the codes and levels of what a list breaks."""
    return [(found.code, found.level) for found in validate(messages, provider, model=model)]


@pytest.mark.parametrize("model", OLD)
def test_an_older_claude_goes_on_from_its_own_words(model: str) -> None:
    """A prefill is no breach there, and stays as it is."""
    given = [ASKS, SAYS]
    assert validate(given, "anthropic", model=model) == []
    assert repair_messages(given, "anthropic", model=model).messages == given


@pytest.mark.parametrize("model", NEW)
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_newer_claude_refuses_a_prefill_everywhere(provider: Any, model: str) -> None:
    """The refusal is hard, repaired by the user's word, also where `prefill` asks for the other."""
    (broken,) = validate([ASKS, SAYS], provider, model=model)
    assert broken.level == "hard"
    assert "prefill" in broken.message
    repaired = repair_messages([ASKS, SAYS], provider, model=model, prefill=True)
    assert repaired.messages[:2] == [ASKS, SAYS]
    assert repaired.messages[2]["role"] == "user"
    assert [each.rule for each in repaired.repairs] == [broken.code]
    again = repair_messages(repaired.messages, provider, model=model)
    assert (again.messages, again.repairs) == (repaired.messages, [])


def test_bedrock_knows_claude_by_the_names_of_its_profiles() -> None:
    """The Converse API has the same rule under a code of its own."""
    given = [{"role": r, "content": [{"text": t}]} for r, t in (("user", "a"), ("assistant", "b"))]
    assert codes(given, "bedrock", "us.anthropic.claude-opus-4-6-v1") == [("BE05", "hard")]
    assert codes(given, "bedrock", "anthropic.claude-3-haiku-20240307-v1:0") == []
    assert codes(given, "bedrock", "amazon.nova-pro-v1:0") == [("BE05", "strict")]


@pytest.mark.parametrize(
    "model", ["claude-opus-4-8", "claude-opus-5-5", "anthropic/claude-opus-4.8"]
)
def test_a_model_that_takes_system_messages_gets_them_as_such(model: str) -> None:
    """Those of another provider's history do too, where the model takes one there."""
    given = [ASKS, SAYS, ASKS, {"role": "system", "content": "Be brief."}]
    made = repair_messages(given, "openai", "anthropic", model=model)
    assert made.messages[-1] == {"role": "system", "content": "Be brief."}
    assert validate(made.messages, "anthropic", model=model) == []
    misplaced = [given[0], given[3], given[0], given[1], given[0]]
    moved = repair_messages(misplaced, "openai", "anthropic", model=model).messages
    assert "[system] Be brief." in json.dumps(moved)
    assert validate(moved, "anthropic", model=model) == []


@pytest.mark.parametrize(
    "model", [*OLD, "claude-opus-4-7", "us.anthropic.claude-opus-4-8", "claude-opus-4-8@20260528"]
)
def test_a_model_without_system_messages_hears_them_from_the_user(model: str) -> None:
    """The refusal is hard; changes of tools, which no text can replace, are left out."""
    change = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "get"}}
    given = [ASKS, {"role": "system", "content": "Be brief."}, SAYS, ASKS]
    given.append({"role": "system", "content": [change]})
    assert ("AN11", "hard") in codes(given, "anthropic", model)
    made = repair_messages(given, "anthropic", model=model)
    assert "[system] Be brief." in json.dumps(made.messages)
    assert "tool_addition" not in json.dumps(made.messages)
    assert {each.rule for each in made.repairs} == {"AN11", "foreign-part"}
    assert validate(made.messages, "anthropic", model=model) == []


def test_a_system_message_stays_with_its_wish_where_the_model_takes_it() -> None:
    """`later_system="user"` is what the caller asks for, whatever the model takes."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.record_messages(
            [ASKS, SAYS, ASKS, {"role": "system", "content": "Be brief."}], "openai"
        )
        events = list(chat.events())
    wished = model_history(events, later_system="user", model="claude-opus-4-8")
    assert "[system] Be brief." in str(wished.render("anthropic"))
    kept = model_history(events, model="claude-opus-4-8")
    assert kept.render("anthropic")["messages"][-1]["role"] == "system"
    assert kept.render("anthropic", model="claude-opus-4-7")["messages"][-1]["role"] == "user"


@pytest.mark.parametrize(
    "model", ["mistralai/Mistral-Small-4", "mistral-large-2512", "open-mixtral-8x22b"]
)
def test_a_model_of_mistral_keeps_its_order_behind_a_gateway(model: str) -> None:
    """The ids have 9 characters, and the assistant speaks between results and the user."""
    given = [ASKS, CALLS, RESULT, ASKS]
    assert validate(given, "openai") == []
    assert ("MI01", "hard") in codes(given, "openai", model)
    made = repair_messages(given, "openai", model=model).messages
    assert [each["role"] for each in made] == ["user", "assistant", "tool", "assistant", "user"]
    assert re.fullmatch("[a-zA-Z0-9]{9}", made[1]["tool_calls"][0]["id"])
    assert validate(made, "openai", model=model) == validate(made, "mistral") == []
    assert repair_messages(made, "openai", model=model).messages == made
    assert validate(given, "openai", model="dolphin-mistral") == []


@pytest.mark.parametrize("server", ["groq/openai/gpt-oss-120b", "cerebras/qwen-3"])
def test_a_server_that_refuses_reasoning_gets_none(server: str) -> None:
    """Elsewhere it goes back, as thinking models of the same form ask for it."""
    given = [ASKS, {**CALLS, "reasoning_content": "Hm."}, RESULT]
    assert codes(given, "openai", server) == [("OA17", "hard")]
    made = repair_messages(given, "openai", model=server)
    assert made.messages == [ASKS, CALLS, RESULT]
    assert [(each.what, each.rule) for each in made.repairs] == [("dropped", "OA17")]
    assert repair_messages(given, "openai", model="deepseek/deepseek-v4-pro").messages == given


def test_deepseek_hears_no_developer_and_sees_no_image() -> None:
    """The text of the message stays, with the address of the image."""
    parts = [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "https://x.org/a.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ]
    given = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": parts}]
    found = validate(given, "openai", model="deepseek-chat")
    assert [(each.code, each.level) for each in found] == [
        ("OA15", "hard"),
        *[("OA16", "hard")] * 2,
    ]
    made = repair_messages(given, "openai", model="deepseek-chat")
    assert [each["content"] for each in made.messages] == [
        "Be brief.",
        "Look:\n[image https://x.org/a.png]\n[image]",
    ]
    assert made.messages[0]["role"] == "system"
    assert [each.rule for each in made.repairs] == ["OA15", "OA16"]


def test_deepseek_wants_an_output_right_after_its_call() -> None:
    """OpenAI's own servers pair them wherever they stand, so that the order stays there."""
    call = {"type": "function_call", "call_id": "a", "name": "get", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "a", "output": "done"}
    given = [ASKS, call, {"role": "developer", "content": "Hook."}, output]
    assert repair_messages(given, "openai-responses").messages == given
    made = repair_messages(given, "openai-responses", model="deepseek-v4-pro").messages
    assert made[1:3] == [call, output]
    assert "Hook." in str(made)


def test_a_server_may_enforce_what_others_only_advise() -> None:
    """The rule is the same, and its level is hard."""
    long = [ASKS, {**CALLS, "tool_calls": [{**CALL, "id": "a" * 41}]}]
    long.append({**RESULT, "tool_call_id": "a" * 41})
    assert set(codes(long, "openai", "azure/gpt-5")) == {("OA06", "hard")}
    cut = {**CALL, "function": {"name": "get", "arguments": '{"a": '}}
    odd = [ASKS, {**CALLS, "tool_calls": [cut]}, RESULT]
    assert codes(odd, "openai", "hosted_vllm/qwen") == [("OA09", "hard")]
    unsigned = [
        {"role": "user", "parts": [{"text": "x"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "get", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "get", "response": {}}}]},
    ]
    assert codes(unsigned, "gemini", "gemini-3.1-pro-preview") == [("GE09", "hard")]
    assert codes(unsigned, "gemini", "models/gemini-2.5-pro") == []
    assert repair_messages(unsigned, "gemini").messages == unsigned
    signed = repair_messages(unsigned, "gemini", model="gemini-3-pro")
    assert signed.messages[1]["parts"][0]["thoughtSignature"]
    assert validate(signed.messages, "gemini", model="gemini-3-pro") == []


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_a_model_of_which_nothing_is_known_changes_nothing(provider: str) -> None:
    """No name is an error."""
    for model in ("", "my-own-model", "gpt-5.2", "☃", "[("):
        assert model_rules(provider, model) == model_rules(provider, None)


def test_a_provider_of_ones_own_brings_its_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A strict rule becomes hard for the models that the fact names, or goes away."""
    monkeypatch.setattr(registry, "_providers", dict(registry._providers))

    class Acme(OpenAIAdapter):
        name = "acme"

    facts = [
        ModelFact(provider="acme", models="^acme-1", says="", source="", refuses=("OA06",)),
        ModelFact(provider="acme", models="^acme-2", says="", source="", accepts=("OA06",)),
        ModelFact(provider="acme", says="", source="", tolerates=("OA06",)),
    ]
    acme = register(Acme(), openai_rules, facts)
    long = [ASKS, {**CALLS, "tool_calls": [{**CALL, "id": "a" * 41}]}]
    long.append({**RESULT, "tool_call_id": "a" * 41})
    found = [set(codes(long, acme, model)) for model in ("acme-1", "acme-2", "acme-3", None)]
    assert found == [{("OA06", "hard")}, set(), {("OA06", "strict")}, {("OA06", "strict")}]
    assert [is_valid(long, acme, model=m) for m in ("acme-1", "acme-3")] == [False, True]


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.says[:40])
def test_a_fact_names_rules_that_exist_and_its_source(fact: ModelFact) -> None:
    """A code that is misspelt would do nothing."""
    known = {**rule_book(fact.provider).RULES, **server_rules.RULES}
    named = [*fact.refuses, *fact.accepts, *fact.tolerates]
    assert named or fact.form in PROVIDERS
    assert {known[code][0] for code in named} <= {"strict"}
    assert re.match(r"https://[a-z.]+/\S+$", fact.source)
    assert rules_of_model(fact.provider, None).provider == fact.provider


def histories() -> list[dict[str, Any]]:
    """Return all example histories."""
    return [
        case
        for file in (HISTORIES, HISTORIES_OF_REPORTS)
        for case in json.loads(file.read_text("utf-8"))["cases"]
        if case["provider"] in PROVIDERS
    ]


TARGETS: Any = [
    ("anthropic", "claude-opus-4-8"),
    ("anthropic", "claude-sonnet-4-5"),
    ("bedrock", "us.anthropic.claude-opus-4-6-v1"),
    ("gemini", "gemini-3-pro"),
    ("openai", "groq/llama-3.3"),
    ("openai", "deepseek-v4-pro"),
    ("openai", "openrouter/anthropic/claude-opus-4.6"),
    ("openai", "mistralai/mistral-small-4"),
    ("openai-responses", "deepseek-v4-pro"),
]


@pytest.mark.parametrize(("target", "model"), TARGETS)
def test_every_example_becomes_what_the_model_takes(target: Any, model: str) -> None:
    """Whatever the history was, the model's rules hold, nothing is lost, and repair ends there."""
    for case in histories():
        given = copy.deepcopy(case["input"])
        made = repair_messages(given, case["provider"], target, model=model)
        assert given == case["input"]
        assert [f for f in validate(made.messages, target, model=model) if f.level == "hard"] == []
        assert is_valid(made.messages, target, model=model)
        again = repair_messages(made.messages, target, model=model)
        assert (again.messages, again.repairs) == (made.messages, [])
    assert list_key(target) in ("messages", "contents", "input")
