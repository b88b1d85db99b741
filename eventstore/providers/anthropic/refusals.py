"""What Anthropic's API says where a rule is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from eventstore.providers.rule_book import Rule

RULES: Final[dict[str, Rule]] = {
    "AN01": (
        "hard",
        (
            "{path}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            "{detail}. Each `tool_use` block must have a corresponding `tool_result` block in the "
            "next message."
        ),
        (
            "put a tool_result for each of these ids at the front of the next user message, "
            "or take the calls out"
        ),
    ),
    "AN02": (
        "hard",
        (
            "{path}: unexpected `tool_use_id` found in `tool_result` blocks: {detail}. "
            "Each `tool_result` block must have a corresponding `tool_use` block "
            "in the previous message."
        ),
        "move the result to the user message right after its call, or keep its text as text",
    ),
    "AN03": (
        "hard",
        (
            "{path}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            "{detail}. Each `tool_use` block must have a corresponding `tool_result` block in the "
            "next message."
        ),
        "move the tool_result blocks of the turn in front of its other blocks",
    ),
    "AN04": (
        "hard",
        (
            "{path}: each tool_use must have a single result. Found multiple `tool_result` blocks "
            "with id: {detail}"
        ),
        "keep one tool_result per call; where two calls share the id, give each its own",
    ),
    "AN05": (
        "hard",
        "{path}: `tool_use` ids must be unique: {detail}",
        "give the later call and its result an id of their own",
    ),
    "AN06": (
        "hard",
        "{path}: String should match pattern '{detail}'",
        (
            "replace every other character by '_' in the same way on call and result, "
            "keeping different ids different"
        ),
    ),
    "AN07": (
        "hard",
        "{path}: Input should be a valid dictionary",
        "send the arguments as an object; wrap any other value in one",
    ),
    "AN08": (
        "hard",
        "{path}: {detail}",
        "say in the content what went wrong, and show what else there is behind the results",
    ),
    "AN09": (
        "hard",
        "{path}: {detail}",
        "leave the blank text or the empty message out, or write a word in its place",
    ),
    "AN10": (
        "hard",
        (
            '{path}: Unexpected role "system". The Messages API accepts a top-level `system` '
            "parameter."
        ),
        "send the text as the `system` parameter",
    ),
    "AN11": (
        "strict",
        (
            '{path}: Unexpected role "system". Models without mid-conversation system messages '
            "refuse it."
        ),
        "send the text as the `system` parameter, or as a user message",
    ),
    "AN20": (
        "hard",
        (
            "{path}: a system message must follow a user message, or an assistant message that "
            "ends with a tool of the server, and an assistant message must follow it."
        ),
        "move it after what the user said, or send its text as a user message",
    ),
    "AN11*": (
        "strict",
        '{path}: Unexpected role "system". Models without changes of tools refuse it.',
        "declare the tools in the `tools` parameter alone",
    ),
    "AN12": (
        "strict",
        "{path}: the first message must have role `user`",
        "begin the messages with what the user said",
    ),
    "AN13": (
        "hard",
        "{path}: {detail}",
        (
            "keep calls in assistant messages and results in user messages, each block an object "
            "with a type"
        ),
    ),
    "AN13*": (
        "strict",
        "{path}: {detail}",
        "send a type that the API knows, or say what the block says in a text",
    ),
    "AN14": (
        "hard",
        "{path}: String should have between 1 and 200 characters",
        "send the name under which the tool was offered",
    ),
    "AN15": (
        "strict",
        "{path}: the next message alone does not hold the `tool_result` blocks of: {detail}",
        "merge same-role neighbours, so that one message holds all the results",
    ),
    "AN16": (
        "hard",
        "{path}: {detail}",
        (
            "keep a call that the provider's own servers ran and its result together, "
            "or leave both out"
        ),
    ),
    "AN17": (
        "hard",
        "{path}: The final block in an assistant message cannot be `{detail}`.",
        "leave out reasoning that nothing came of",
    ),
    "AN18": (
        "strict",
        (
            "{path}: This model does not support assistant message prefill. The conversation must "
            "end with a user message."
        ),
        "end with what the model is to answer; `prefill=False` adds that nothing was said since",
    ),
    "AN19": (
        "hard",
        "{path}: {detail}",
        "keep the 4 newest marks, none of them on reasoning, and none of 1h after one of 5m",
    ),
    "AN21": (
        "hard",
        "{path}: the result of a toolset's call names the toolset: {detail}",
        "copy `toolset_name` from the call to each of its results",
    ),
    "AN22": (
        "hard",
        "{path}: {detail}",
        (
            "keep the `server_tool_use` that a `caller` names, or take the `caller` out; send "
            "words after the answer of the code"
        ),
    ),
}
"""Code to level, the API's words and the remedy."""
