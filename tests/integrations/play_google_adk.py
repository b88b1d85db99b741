"""The scenes as google-adk plays them, with a model that follows the script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps.app import App
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner
from google.genai import types
from integrations.scenes import Play, Played, Tools, note_request

from eventstore import AsyncEventStore, CallChanged
from eventstore.integrations.google_adk import Ledger

if TYPE_CHECKING:
    from google.adk.events import Event

_SESSIONS: dict[str, Any] = {}
"""The session services that are kept from one run to the next, by the log beside them."""

NAMES = {"user_id": "ann", "session_id": "s"}


class ScriptedModel(BaseLlm):
    """A model that gives the response whose number is that of the responses in its prompt."""

    model: str = "scripted"
    script: tuple[Any, ...]
    play: Any = None
    asked: str = ""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield a response; in pieces first, if it is to be streamed."""
        self.asked = str([c.model_dump(exclude_none=True) for c in llm_request.contents])
        if self.play is not None:
            contents = [c.model_dump(mode="json", exclude_none=True) for c in llm_request.contents]
            note_request(self.play, contents)
        said = self.script[sum(content.role == "model" for content in llm_request.contents)]
        parts = [types.Part(text=said.text)] if said.text else []
        for name, arguments, call_id in said.calls:
            call = types.FunctionCall(name=name, args=json.loads(arguments), id=call_id or None)
            parts.append(types.Part(function_call=call))
        if stream:
            for part in parts:
                yield LlmResponse(content=types.Content(role="model", parts=[part]), partial=True)
        used = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=9, candidates_token_count=4
        )
        reason = types.FinishReason.MAX_TOKENS if said.cut_off else None
        content = types.Content(role="model", parts=parts)
        yield LlmResponse(content=content, usage_metadata=used, finish_reason=reason)


class OneByOne(BasePlugin):
    """Lets the calls of a turn run one after the other."""

    def __init__(self) -> None:
        super().__init__("one_by_one")
        self._turn = asyncio.Lock()

    async def before_tool_callback(self, **call: Any) -> None:
        """Wait until no other call runs."""
        await self._turn.acquire()

    def ended(self, **call: Any) -> None:
        """Let the next one run; an agent calls this after its plugins."""
        self._turn.release()


def message(text: str) -> types.Content:
    """Return what a user says."""
    return types.Content(role="user", parts=[types.Part(text=text)])


def confirmation(events: list[Event], answer: bool) -> types.Part:
    """Return a host's answer to the confirmation that a run ended with."""
    (asked,) = [
        call
        for event in events
        for call in event.get_function_calls()
        if call.name == "adk_request_confirmation"
    ]
    response = types.FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": answer})
    return types.Part(function_response=response)


def words(events: list[Event]) -> str:
    """Return the model's last words; nothing if the run ended without any."""
    last = events[-1].content if events else None
    return "".join(part.text or "" for part in (last and last.parts) or [])


async def play(play: Play, tools: Tools) -> Played:
    """Play a scene, or its second half."""
    async with AsyncEventStore.open(play.url, redact=play.rules) as store:
        ledger = Ledger(store.conversation(play.chat), needs_approval=["mail"])
        one_by_one = OneByOne()
        model = ScriptedModel(script=play.script, play=play)
        agent = LlmAgent(
            name="support",
            model=model,
            tools=[
                tools.find_order,
                tools.refund,
                tools.mail,
                tools.ponder,
                tools.consult,
                tools.audit,
            ],
            after_tool_callback=one_by_one.ended if play.kill else None,
        )
        plugins = [one_by_one, ledger] if play.kill else [ledger]
        runner = InMemoryRunner(app=App(name="shop", root_agent=agent, plugins=plugins))
        if play.kept:
            runner.session_service = _SESSIONS.setdefault(play.url, runner.session_service)
        if play.prompt is None:
            run = ledger.resume(runner, **NAMES)
        else:
            names = {"app_name": "shop", **NAMES}
            if await runner.session_service.get_session(**names) is None:
                await runner.session_service.create_session(**names)
            mode = StreamingMode.SSE if play.streamed else StreamingMode.NONE
            run = runner.run_async(
                new_message=message(play.prompt), run_config=RunConfig(streaming_mode=mode), **NAMES
            )
        events = [event async for event in run]
        if play.answer is not None:
            tools.change_mail()
            said = types.Content(role="user", parts=[confirmation(events, play.answer)])
            try:
                late = [e async for e in runner.run_async(new_message=said, **NAMES)]
            except RuntimeError as error:
                changed = error.__cause__  # ADK wraps what a plugin raises
                if not isinstance(changed, CallChanged):
                    raise
                return Played(shown=str(changed.now.effective_call.arguments))
            return Played(words(late))
        return Played(words(events), model.asked)
