"""The scenes as agent-framework plays them, with a client that follows the script."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    tool,
)
from integrations.scenes import Play, Played, Tools, note_request

from eventstore import AsyncEventStore, CallChanged
from eventstore.integrations.agent_framework import Ledger

_SESSIONS: dict[str, AgentSession] = {}
"""The sessions that are kept from one run to the next, by the log beside them."""

USED: Any = {"input_token_count": 9, "output_token_count": 4}
"""What each response says of itself."""


def shown(messages: list[Message]) -> list[object]:
    """Return what a request shows a model, without the marks of the framework."""
    members = ("type", "text", "call_id", "name", "arguments", "result", "exception", "uri")
    return [
        (m.role, [[getattr(content, name) for name in members] for content in m.contents])
        for m in messages
    ]


class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """A client that gives the response whose number is that of the responses in its prompt."""

    def __init__(self, play: Play, **options: Any) -> None:
        super().__init__(**options)
        self._play = play
        self.prompts: list[list[Message]] = []

    @property
    def asked(self) -> str:
        """The messages of the last request, as JSON."""
        return json.dumps([m.to_dict() for prompt in self.prompts[-1:] for m in prompt])

    def _inner_get_response(
        self,
        *,
        messages: Sequence[Message],
        stream: bool,
        options: Mapping[str, Any],
        **kwargs: Any,
    ) -> Any:
        self.prompts.append(list(messages))
        note_request(self._play, shown(messages))
        said = self._play.script[sum(message.role == "assistant" for message in messages)]
        contents = [Content.from_text(said.text)] if said.text else []
        reason: Any = "length" if said.cut_off else None
        if stream:
            pieces = [
                Content.from_function_call(call_id, name, arguments=piece)
                for name, arguments, call_id in said.calls
                for piece in (arguments[:5], arguments[5:])
            ]
            return ResponseStream(
                _updates([*contents, *pieces, Content.from_usage(USED)]),
                finalizer=ChatResponse.from_updates,
            )
        contents += [Content.from_function_call(i, n, arguments=a) for n, a, i in said.calls]
        return _given(Message("assistant", contents), reason)


async def _given(message: Message, reason: Any) -> ChatResponse:
    return ChatResponse(messages=message, finish_reason=reason, usage_details=USED)


async def _updates(contents: Sequence[Content]) -> AsyncIterator[ChatResponseUpdate]:
    for content in contents:
        yield ChatResponseUpdate(role="assistant", contents=[content])


async def play(play: Play, tools: Tools) -> Played:
    """Play a scene, or its second half."""
    client = ScriptedClient(
        play, function_invocation_configuration={"allow_concurrent_invocation": not play.kill}
    )
    own_tools = [tools.find_order, tools.refund, tools.ponder, tools.consult, tools.audit]
    mail = tool(tools.mail, approval_mode="always_require")
    session = AgentSession()
    if play.kept:
        session = _SESSIONS.setdefault(play.url, session)
    async with AsyncEventStore.open(play.url, redact=play.rules) as store:
        ledger = Ledger(store.conversation(play.chat))
        agent = Agent(client, tools=[*own_tools, mail], context_providers=[ledger])
        if play.prompt is None:
            result = await ledger.resume(agent, session=session)
            if result is None:
                return Played()
        elif play.streamed:
            stream = agent.run(play.prompt, stream=True, session=session)
            return Played("".join([update.text async for update in stream]))
        else:
            result = await agent.run(play.prompt, session=session)
        if play.answer is not None:
            tools.change_mail()
            (asked,) = result.user_input_requests
            reply = Message("user", [asked.to_function_approval_response(play.answer)])
            try:
                await agent.run(reply, session=session)
            except CallChanged as changed:
                return Played(shown=str(changed.now.effective_call.arguments))
        return Played("" if result.user_input_requests else result.messages[-1].text, client.asked)
