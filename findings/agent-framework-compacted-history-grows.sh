#!/usr/bin/env bash
# Guess: with a `CompactionProvider` that compacts the stored history after each run, put together as its
#     docstring does, the next run's request has the short form of the last run's tool results and not the long.
# Package: agent-framework-core 1.23.0
# Date: 2026-11-28
# Output: the request grows: it has both. The long form is marked as excluded, and `InMemoryHistoryProvider`
#     gives out what is marked unless `skip_excluded=True`. Then, too, the last run is whole: what follows a
#     run happens in reverse order of the providers, so that compaction comes before the history has that run.
#
#     without compaction, third request: user, call, result, assistant, user, call, result, assistant, user
#     as in the docstring, third request: user, short, call, result, assistant, user, call, result, assistant, user
#     with skip_excluded, third request: user, short, assistant, user, call, result, assistant, user
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q agent-framework-core==1.23.0

cat >run.py <<'PYTHON'
import asyncio

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    CompactionProvider,
    Content,
    FunctionInvocationLayer,
    InMemoryHistoryProvider,
    Message,
    ToolResultCompactionStrategy,
    tool,
)


class Fake(FunctionInvocationLayer, BaseChatClient):
    """Calls the tool when the user speaks; answers when the tool has."""

    def _inner_get_response(self, *, messages, stream, options, **kwargs):
        self.request = messages
        calls = sum(kind(message) == "call" for message in messages)
        call = Content.from_function_call(f"call_{calls}", "look", arguments="{}")
        said = call if messages[-1].role == "user" else Content.from_text("Seen.")

        async def response():
            return ChatResponse(messages=Message("assistant", [said]))

        return response()


def kind(message):
    """Return what a message is: its role, or a call, its result, or the short form of both."""
    (content,) = message.contents
    if content.type == "text":
        return "short" if "Tool results" in content.text else message.role
    return content.type.removeprefix("function_")


@tool
def look() -> str:
    """Look."""
    return "a long line " * 100


async def third_request(history, strategy):
    compaction = CompactionProvider(after_strategy=strategy, history_source_id=history.source_id)
    client = Fake()
    agent = Agent(client=client, tools=[look], context_providers=[history, compaction])
    session = agent.create_session()
    for _ in range(3):
        await agent.run("Look.", session=session)
    kinds = [kind(message) for message in client.request]
    return ", ".join(kinds[:-2])  # its last two are the call and the result of the third run


async def main():
    strategy = ToolResultCompactionStrategy(keep_last_tool_call_groups=0)
    for told, history, used in (
        ("without compaction", InMemoryHistoryProvider(), None),
        ("as in the docstring", InMemoryHistoryProvider(), strategy),
        ("with skip_excluded", InMemoryHistoryProvider(skip_excluded=True), strategy),
    ):
        print(f"{told}, third request:", await third_request(history, used))


asyncio.run(main())
PYTHON

venv/bin/python -W ignore run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(.*, third request: .*\)/\1/p' "$here") seen.txt
