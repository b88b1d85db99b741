"""Finish reasons: what each provider says of how a response ended, and whether it is whole. Pure.

The rule:

1. The calls of a response run only if the response is whole. What was cut off may lack a call, an
   argument, or the words that explain it; what was withheld or malformed is not what the model
   wrote.
2. A reason is looked up as its provider writes it, then in any provider's list, whatever its
   case: servers with another's API hand on their own words.
3. A reason that no list has is not known to be whole, so that no call of the response runs.
   `eventstore.providers.register_finish_reason` adds it.
4. A response that gives no reason is whole, as far as is known. A stream that gives none broke off.
5. The provider's word for an error stands behind the reason: `failed: server_error`. Where a
   response gives no reason, but an error, or nothing at all, its reason is `error` or `empty`.

The values are those of the providers' own SDKs, each named with its list; a test compares them with
the SDKs that are installed. What others say through the same API stands after them.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from eventstore.domain.failure import ErrorKind, Failure

Ending: TypeAlias = Literal["whole", "truncated", "withheld", "malformed", "broken", "unknown"]
"""How a response ended.

`truncated`: a limit cut it off. `withheld`: a filter or the model itself held it back. `malformed`:
its calls could not be read. `broken`: an error, a timeout or a cancel ended it. `unknown`: no list
has its reason.
"""

NOT_WHOLE: Final = "broken_off"
"""The code of calls that did not run because their response is not whole, or its stream ended."""

BROKEN_OFF: Final = Failure(
    ErrorKind.TRANSIENT,
    "the response broke off before its end: the call was not run",
    code=NOT_WHOLE,
)
"""The failure of each call in a response whose stream broke off: the model had not finished."""


def _table(**endings: str) -> dict[str, Ending]:
    """Return the ending of each reason; each argument lists the reasons of one ending."""
    table: dict[str, Ending] = {}
    for ending, reasons in endings.items():
        table.update(dict.fromkeys(reasons.split(), ending))  # type: ignore[arg-type]
    return table


FINISH_REASONS: Final[dict[str, dict[str, Ending]]] = {
    # anthropic 2.14: types.StopReason, types.beta.BetaStopReason. `pause_turn` ends a whole
    # message, which the next request continues.
    "anthropic": _table(
        whole="end_turn stop_sequence tool_use pause_turn compaction",
        truncated="max_tokens model_context_window_exceeded",
        withheld="refusal",
    ),
    # botocore 1.44: bedrock-runtime 2023-09-30, shape StopReason
    "bedrock": _table(
        whole="end_turn tool_use stop_sequence",
        truncated="max_tokens model_context_window_exceeded",
        withheld="guardrail_intervened content_filtered",
        malformed="malformed_model_output malformed_tool_use",
    ),
    # cohere 7.3: types.ChatFinishReason; FinishReason and ChatStreamEndEventFinishReason of v1
    "cohere": _table(
        whole="COMPLETE STOP_SEQUENCE TOOL_CALL",
        truncated="MAX_TOKENS ERROR_LIMIT",
        withheld="ERROR_TOXIC",
        broken="ERROR TIMEOUT USER_CANCEL",
    ),
    # google-genai 3.6: types.FinishReason and types.BlockedReason, and of the API's reference
    # MALFORMED_RESPONSE, MISSING_THOUGHT_SIGNATURE and MODEL_ARMOR. The older SDKs give the
    # unspecified reason of a block where nothing was blocked.
    "gemini": _table(
        whole="STOP BLOCKED_REASON_UNSPECIFIED BLOCK_REASON_UNSPECIFIED",
        truncated="MAX_TOKENS CONTINUATION",
        withheld=(
            "SAFETY RECITATION LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY "
            "IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION MODEL_ARMOR ESCALATION PUP_LIMITED_DISABLED "
            "JAILBREAK"
        ),
        malformed=(
            "MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL MALFORMED_RESPONSE "
            "MISSING_THOUGHT_SIGNATURE"
        ),
        broken="FINISH_REASON_UNSPECIFIED OTHER TOO_MANY_TOOL_CALLS NO_IMAGE IMAGE_OTHER",
    ),
    # mistralai 3.7: client.models.ChatCompletionChoiceFinishReason
    "mistral": _table(whole="stop tool_calls", truncated="length model_length", broken="error"),
    # ollama 0.6: `done_reason` is any text; the server's are in llm/server.go, server/routes.go
    "ollama": _table(whole="stop load unload", truncated="length"),
    # openai 3.57: types.chat.ChatCompletion. After it: DeepSeek, TGI, vLLM, SGLang, OpenRouter,
    # Together AI, Z.ai and the OpenTelemetry names, which pydantic-ai uses.
    "openai": _table(
        whole="stop tool_calls function_call tool_call eos eos_token",
        truncated="length",
        withheld="content_filter sensitive",
        broken="error abort cancelled insufficient_system_resource network_error",
    ),
    # openai 3.57: types.responses.ResponseStatus, and the reasons of IncompleteDetails
    "openai-responses": _table(
        whole="completed",
        truncated="incomplete in_progress queued max_output_tokens max_messages steered",
        withheld="content_filter",
        broken="failed cancelled",
    ),
}
"""How a response ended, by provider and by what the provider says."""

ERROR: Final = "error"
EMPTY: Final = "empty"
"""The reasons of responses that give none: with an error, and with nothing in them."""

_added: Final[dict[tuple[str, str], Ending]] = {}
_of_any: Final[dict[str, Ending]] = {
    **_table(broken=EMPTY),
    **{
        reason.lower(): ending
        for table in FINISH_REASONS.values()
        for reason, ending in table.items()
    },
}
_WORD: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def is_word(text: object) -> bool:
    """Return whether a provider's text is one word, such as the code of an error."""
    return isinstance(text, str) and _WORD.fullmatch(text) is not None


def with_word(reason: str, word: str | None) -> str:
    """Return a reason with the provider's word for the error behind it."""
    return reason if word is None or word == reason else f"{reason}: {word}"


def register_finish_reason(provider: str, reason: str, *, whole: bool) -> None:
    """Say of a provider's finish reason whether a response that ends with it is whole.

    It holds for this process, and stands above the list that comes with the library.

    Raises:
        ValueError: the reason is not a text, or is empty.
    """
    if not isinstance(reason, str) or not reason:
        raise ValueError(f"reason is {reason!r}: pass the text that the provider gives")
    _added[provider, reason] = "whole" if whole else "truncated"


def ending_of(provider: str | None, reason: str | None) -> Ending:
    """Return how a response ended that gave this reason; see the module."""
    if not reason:
        return "whole"
    added = _added.get((provider or "", reason))
    if added is not None:
        return added
    own = FINISH_REASONS.get(provider or "", {}).get(reason)
    ending = own or _of_any.get(reason.lower())
    if ending is None:
        head, colon, word = reason.partition(": ")
        return ending_of(provider, head) if colon and is_word(word) else "unknown"
    return ending


_TEXTS: Final[dict[Ending, str]] = {
    "truncated": "the response was cut off",
    "withheld": "the response was withheld",
    "malformed": "the response was malformed",
    "broken": "the response ended with an error",
    "unknown": "the response ended for a reason that toolledger does not know",
}


def why_not_whole(provider: str | None, reason: str | None) -> Failure | None:
    """Return why no call of a response runs; None if the response is whole."""
    ending = ending_of(provider, reason)
    if ending == "whole":
        return None
    text = f"{_TEXTS[ending]} ({reason}): the call was not run"
    return Failure(ErrorKind.TRANSIENT, text, code=NOT_WHOLE)


def is_of_cut_off_response(failure: Failure) -> bool:
    """Return whether a call failed because its response is not whole."""
    return failure.code == NOT_WHOLE
