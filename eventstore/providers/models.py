"""What single models and servers are known to take or to refuse: one table, with its sources.

A provider's rule book says what its format allows, and names as strict what only some models or
servers refuse. `FACTS` says which: a row names models by a pattern, and the codes of rules that
they enforce or do without. A name that no row knows changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

__all__ = ["FACTS", "ModelFact", "ModelRules", "rules_of_model"]


class ModelFact(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of some models or servers that take the format of one provider."""

    provider: str
    says: str
    """The fact in words."""
    source: str
    """The address of the page or the report that shows it."""
    models: str = ""
    """A regular expression, found in the lower-case name of each; empty for all of the provider.

    Servers are named as gateways do: `groq/…`, `azure/…`, `us.anthropic.…`.
    """
    refuses: tuple[str, ...] = ()
    """The codes of strict rules that they enforce."""
    accepts: tuple[str, ...] = ()
    """The codes of strict rules that they do not have."""
    tolerates: tuple[str, ...] = ()
    """The codes of strict rules that repair leaves alone: nothing is known of the model."""
    form: str | None = None
    """The provider whose rules and form hold instead."""


class ModelRules(msgspec.Struct, frozen=True):
    """Where one model, or any, holds to other rules than the provider's rule book."""

    provider: str
    """The provider whose form and rules hold."""
    refuses: frozenset[str] = frozenset()
    accepts: frozenset[str] = frozenset()
    tolerates: frozenset[str] = frozenset()

    @property
    def takes_prefill(self) -> bool:
        """Whether the model may continue from the assistant's words, for all that is known."""
        return not self.refuses & _PREFILL

    @property
    def takes_later_system(self) -> bool | None:
        """Whether it takes system messages inside of the conversation; None if it is not known."""
        return False if _LATER_SYSTEM in self.refuses else _LATER_SYSTEM in self.accepts or None


def rules_of_model(
    provider: str, model: str | None, own_facts: Iterable[ModelFact] = ()
) -> ModelRules:
    """Return what is known of a model, or of the provider alone where `model` is None."""
    name = (model or "").lower()
    facts = [
        fact
        for fact in (*FACTS, *own_facts)
        if fact.provider == provider
        if not fact.models or (name and re.search(fact.models, name))
    ]
    refuses = frozenset(code for fact in facts for code in fact.refuses)
    accepts = frozenset(code for fact in facts for code in fact.accepts) - refuses
    tolerates = frozenset(code for fact in facts for code in fact.tolerates) - refuses
    form = next((fact.form for fact in facts if fact.form is not None), provider)
    return ModelRules(form, refuses, accepts, tolerates)


_PREFILL: Final = frozenset({"AN18", "BE05", "OA14"})
_LATER_SYSTEM: Final = "AN11"

_CLAUDE_TO_4_5: Final = (
    r"claude-(?:instant|v?[123](?!\d)|4(?![-.][6-9])"
    r"|(?:opus|sonnet|haiku)-4(?![-.](?:[6-9]|1\d)(?!\d)))"
)
_CLAUDE_FROM_4_6: Final = (
    r"claude-(?:(?:opus|sonnet|haiku)-4[-.](?:[6-9]|1\d)(?!\d)|4[-.][6-9](?!\d)"
    r"|mythos|[a-z]+-[5-9](?!\d))"
)
_CLAUDE_WITH_LATER_SYSTEM: Final = (
    r"claude-(?:opus-4[-.]8(?!\d)|opus-5(?!\d)|(?:sonnet|haiku)-5[-.]5(?!\d)|(?:fable|mythos)-5)"
)
_NOT_ON_GROQ: Final = r"^(?!groq/|cerebras/).*"  # these refuse any reasoning
_DEEPSEEK: Final = r"deepseek-(?:chat|coder|reasoner|flash|v[234]|r1)"

_TOKENIZER_V3_TO_V11: Final = (
    r"(?:mistral|mixtral|ministral|codestral|devstral|magistral|pixtral)[-\w.]*?"
    r"-(?:24(?:0[3-9]|1[0-2])|250[1-6])(?!\d)|mistral-tiny-2407"
    r"|(?:mistral-nemo|mixtral-8x22b|pixtral-(?:12b|large)|codestral-mamba|voxtral)"
    r"|mistral-7b[-\w]*-v0\.3"
)

_TOKENIZER_FROM_V13: Final = (
    r"(?:mistral|ministral|codestral|devstral|magistral)[-\w.]*?"
    r"-(?:250[7-9]|251[0-2]|2[6-9]\d\d)(?!\d)"
)

_PREFILL_REMOVED: Final = (
    "https://platform.claude.com/docs/en/about-claude/models/whats-new-claude-4-6#prefill-removal"
)
_LATER_SYSTEM_PAGE: Final = (
    "https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages"
)
_SIGNATURES: Final = "https://ai.google.dev/gemini-api/docs/thought-signatures"

FACTS: Final = (
    ModelFact(
        provider="anthropic",
        says="No model named: some continue from the assistant's words, some take system messages",
        source=_LATER_SYSTEM_PAGE,
        tolerates=("AN11", "AN11*", "AN13*", "AN18"),
    ),
    ModelFact(
        provider="anthropic",
        models=_CLAUDE_FROM_4_6,
        says="Claude 4.6 and later do not continue from the assistant's words",
        source=_PREFILL_REMOVED,
        refuses=("AN18",),
    ),
    ModelFact(
        provider="anthropic",
        models=_CLAUDE_TO_4_5,
        says="Claude up to 4.5 continues from the assistant's words",
        source="https://github.com/strands-agents/sdk-python/issues/1694",
        accepts=("AN18",),
    ),
    ModelFact(
        provider="anthropic",
        models=_CLAUDE_WITH_LATER_SYSTEM,
        says="Claude Opus 4.8, the 5.5 models, Opus 5, Fable and Mythos 5 take system messages and "
        "changes of tools inside",
        source="https://github.com/langchain-ai/langchainjs/releases/tag/"
        "@langchain%2Fanthropic@1.5.13",
        accepts=("AN11", "AN11*"),
    ),
    ModelFact(
        provider="anthropic",
        models=_CLAUDE_TO_4_5 + r"|claude-(?:opus|sonnet|haiku)-4[-.][67](?!\d)",
        says="Claude before Opus 4.8 takes no system messages inside",
        source=_LATER_SYSTEM_PAGE,
        refuses=("AN11", "AN11*"),
    ),
    ModelFact(
        provider="anthropic",
        models=r"(?:^|[./])anthropic\.claude|claude[^/]*@|^(?:bedrock|vertex_ai|azure_ai)/",
        says="Bedrock, Vertex AI and Microsoft Foundry take no system messages inside",
        source=_LATER_SYSTEM_PAGE,
        refuses=("AN11", "AN11*"),
    ),
    ModelFact(
        provider="bedrock",
        says="No model named: some continue from the assistant's words, or take changes of tools, "
        "or more than 20 images in a message",
        source="https://github.com/strands-agents/sdk-python/issues/1694",
        tolerates=("BE03**", "BE05", "BE07**"),
    ),
    ModelFact(
        provider="bedrock",
        models=_CLAUDE_FROM_4_6,
        says="Claude 4.6 and later do not continue from the assistant's words",
        source="https://github.com/strands-agents/sdk-python/issues/1694",
        refuses=("BE05",),
    ),
    ModelFact(
        provider="bedrock",
        models=_CLAUDE_TO_4_5,
        says="Claude up to 4.5 continues from the assistant's words",
        source="https://github.com/strands-agents/sdk-python/issues/1694",
        accepts=("BE05",),
    ),
    ModelFact(
        provider="gemini",
        says="Several contents of one role, text beside responses, and one content without a role "
        "are answered",
        source="https://github.com/anomalyco/opencode/issues/43479",
        tolerates=("GE03*", "GE07*", "GE08"),
    ),
    ModelFact(
        provider="gemini",
        models=r"gemini-[3-9](?!\d)(?!.*image)",
        says="Gemini 3 and later refuse a call without its thought signature",
        source=_SIGNATURES,
        refuses=("GE06", "GE09"),
    ),
    ModelFact(
        provider="gemini",
        models=r"gemini-[12](?!\d)|gemini-3(?!\d).*image",
        says="Gemini up to 2.5, and Gemini 3 Pro Image, do not check thought signatures",
        source="https://docs.cloud.google.com/vertex-ai/generative-ai/docs/thought-signatures",
        accepts=("GE06",),
    ),
    ModelFact(
        provider="mistral",
        models=_TOKENIZER_V3_TO_V11,
        says="Mistral's tokenizers v3 to v11 ask for ids of 9 letters and digits, later ones do"
        " not",
        source="https://github.com/mistralai/mistral-common/blob/main/src/mistral_common/protocol/"
        "instruct/validator.py",
        refuses=("MI01*",),
        accepts=("MI01**",),  # which says the same of fewer ids
    ),
    ModelFact(
        provider="mistral",
        models=_TOKENIZER_FROM_V13,
        says="Mistral's tokenizers from v13 on take any id",
        source="https://github.com/mistralai/mistral-common/blob/main/src/mistral_common/protocol/"
        "instruct/validator.py",
        accepts=("MI01**",),
    ),
    ModelFact(
        provider="ollama",
        says="Results that do not name their tool, as older clients send them, are answered",
        source="https://github.com/traceloop/openllmetry/tree/main/packages/"
        "opentelemetry-instrumentation-ollama",
        tolerates=("OL01**",),
    ),
    ModelFact(
        provider="openai",
        models=r"(?:^|[/.])(?:open-)?(?:mistral|mixtral|ministral|codestral|devstral|magistral|pixtral)",
        says="Mistral's models keep Mistral's rules behind gateways: ids of 9 characters, no user "
        "after results",
        source="https://github.com/NousResearch/hermes-agent/issues/20154",
        refuses=("MI01*",),
        form="mistral",
    ),
    ModelFact(
        provider="openai",
        models=_CLAUDE_FROM_4_6,
        says="Claude 4.6 and later do not continue from the assistant's words, behind gateways too",
        source="https://github.com/anomalyco/opencode/pull/14772",
        refuses=("OA14",),
    ),
    ModelFact(
        provider="openai",
        models=_DEEPSEEK,
        says="DeepSeek has no role `developer`",
        source="https://github.com/farion1231/cc-switch/issues/3330",
        refuses=("OA15",),
    ),
    ModelFact(
        provider="openai",
        models=_DEEPSEEK,
        says="DeepSeek takes no images",
        source="https://github.com/openkursar/hello-halo/issues/109",
        refuses=("OA16",),
    ),
    ModelFact(
        provider="openai",
        models=_NOT_ON_GROQ + r"deepseek-v(?:[4-9]|[1-9]\d)",
        says="DeepSeek V4 wants the reasoning of each of the assistant's messages back",
        source="https://github.com/openclaw/openclaw/issues/73417",
        refuses=("OA18",),
    ),
    ModelFact(
        provider="openai",
        models=_NOT_ON_GROQ + r"kimi-k(?:2[-.](?:[5-9]|thinking)|[3-9])",
        says="Kimi K2.5 and later want the reasoning of each message that calls back, not empty",
        source="https://github.com/theopenco/llmgateway/pull/2093",
        refuses=("OA19",),
    ),
    ModelFact(
        provider="openai",
        models=r"^groq/",
        says="Groq refuses `reasoning_content`",
        source="https://github.com/janhq/jan/issues/8136",
        refuses=("OA17",),
    ),
    ModelFact(
        provider="openai",
        models=r"^cerebras/",
        says="Cerebras refuses `reasoning_content`",
        source="https://github.com/Kilo-Org/kilocode/issues/10375",
        refuses=("OA17",),
    ),
    ModelFact(
        provider="openai",
        models=r"^azure(?:_ai)?/",
        says="Azure refuses ids of more than 40 characters",
        source="https://github.com/BerriAI/litellm/issues/11392",
        refuses=("OA06",),
    ),
    ModelFact(
        provider="openai",
        models=r"^(?:hosted_)?vllm/",
        says="vLLM refuses arguments that are not the JSON text of an object",
        source="https://github.com/vllm-project/vllm/issues/43995",
        refuses=("OA09",),
    ),
    ModelFact(
        provider="openai-responses",
        says="OpenAI pairs a call with its output wherever both stand",
        source="https://github.com/deepseek-ai/awesome-deepseek-integration/issues/740",
        tolerates=("OR06",),
    ),
    ModelFact(
        provider="openai-responses",
        models=r"deepseek",
        says="DeepSeek refuses what stands between a call and its output",
        source="https://github.com/deepseek-ai/awesome-deepseek-integration/issues/740",
        refuses=("OR06",),
    ),
    ModelFact(
        provider="openai-responses",
        models=r"^(?:hosted_)?vllm/",
        says="vLLM refuses arguments that are not the JSON text of an object",
        source="https://github.com/vllm-project/vllm/issues/43995",
        refuses=("OR05*",),
    ),
    ModelFact(
        provider="openai-responses",
        models=r"^(?:hosted_)?vllm/",
        says="vLLM refuses parts of the assistant's in a message that is not whole",
        source="https://github.com/openai/codex/issues/12669",
        refuses=("OR07", "OR08"),
    ),
)
"""All that is known, provider by provider."""
