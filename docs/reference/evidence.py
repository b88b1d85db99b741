"""What shows each provider rule: a refusal that somebody reported, or the provider's reference.

`REPORTS` are public issues that quote the refusal. A rule without one is taken from the provider's
reference, from the types of its SDK, or, where it is strict, from a server that follows the format.
"""

from __future__ import annotations

from typing import Final

REPORTS: Final[dict[str, tuple[str, ...]]] = {
    "OA03": ("agno#5116", "search2ai#30"),
    "OA04": ("chatbox#2079", "mlflow#14410"),
    "OA06": ("dify#28987", "agno#5382"),
    "OA07": ("continue#9784",),
    "OA09": ("vllm#43995", "kimi-cli#2165", "vercel/ai#19274", "codegraff#752"),
    "OA10": ("openclaw#47136", "oh-my-pi#2055"),
    "AN04": ("litellm#17632", "Anthropic.SDK#111"),
    "AN05": ("cua#524", "opencode#1279"),
    "AN06": ("opencode#1279",),
    "AN07": ("anthropic-sdk-typescript#648", "prism#659"),
    "AN08": ("inspect_ai#169", "markform#153"),
    "BE07": ("bifrost#7003", "generative-ai-use-cases#1685", "strands-agents#1966"),
    "GE01": ("gemini-cli#4504", "vscode#299295"),
    "GE02": ("langchain#27799",),
    "GE03": ("gemini-cli#26486",),
    "GE06": ("dirge#833", "cc-switch#6848"),
    "GE08": ("opencode#43479",),
    "MI04": ("crush#1590", "litellm#30835", "mistral-go#3"),
    "OR01": (
        "openai-agents-python#673",
        "openai-agents-python#1061",
        "openai-agents-python#2664",
    ),
    "OR02": ("letta#3250",),
}
"""Rule to the issues that quote its refusal, as repository#number."""
