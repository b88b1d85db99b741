"""A model on 127.0.0.1 that says what a script says, in the forms of OpenAI, Anthropic and Gemini.

Agents of others are run against it: the step is the number of the model's messages so far. What is
asked without tools (a title, a summary) gets a text, and a sub-agent, which is asked to
`SUB_AGENT_TASK`, makes the first step's calls and ends.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, NamedTuple

SUB_AGENT_TASK = "Count the files"

_USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


class Step(NamedTuple):
    """What the model says next: words, and calls (name and arguments)."""

    said: str
    calls: Sequence[tuple[str, dict[str, Any]]] = ()


class _Model(BaseHTTPRequestHandler):
    """Answers requests; the server's class has the steps."""

    protocol_version = "HTTP/1.1"
    steps: ClassVar[Sequence[Step]] = ()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer what asks for the models."""
        self._send({"object": "list", "data": [{"id": "fake-model", "object": "model"}]})

    def do_POST(self) -> None:
        """Answer a request by its path."""
        body = json.loads(self._body() or b"{}")
        path = self.path.partition("?")[0]
        if "enerateContent" in path:
            self._gemini(body)
        elif path.endswith("/messages"):
            self._anthropic(body)
        elif path.endswith("/responses"):
            self._responses(body)
        elif path.endswith("/completions"):
            self._completions(body)
        else:
            self._send({})

    def _body(self) -> bytes:
        if "content-length" in self.headers:
            return self.rfile.read(int(self.headers["content-length"]))
        whole = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def _send(self, answer: object) -> None:
        self._send_text(json.dumps(answer), "application/json")

    def _send_text(self, text: str, kind: str) -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send_events(self, events: Sequence[tuple[str, dict[str, Any]]]) -> None:
        lines = (f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events)
        self._send_text("".join(lines), "text/event-stream")

    def _step(self, messages: Sequence[Any], has_tools: bool, turn: int) -> Step:
        if not has_tools:
            return Step("A short text")
        asked = (json.dumps(each) for each in messages if _is_asked(each))
        if any(SUB_AGENT_TASK in each for each in asked):
            steps: Sequence[Step] = (Step("", self.steps[0].calls), Step("There is one file."))
        else:
            steps = self.steps
        return steps[min(turn, len(steps) - 1)]

    def _completions(self, body: dict[str, Any]) -> None:
        turn = sum(each.get("role") == "assistant" for each in body["messages"])
        step = self._step(body["messages"], bool(body.get("tools")), turn)
        made = [
            {
                "index": number,
                "id": f"call_{turn}_{number}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for number, (name, arguments) in enumerate(step.calls)
        ]
        message = {"role": "assistant", "content": step.said} | (
            {"tool_calls": made} if made else {}
        )
        base = {"id": f"chatcmpl-{turn}", "created": 1, "model": "fake-model"}
        reason = "tool_calls" if made else "stop"
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            self._send(base | {"object": "chat.completion", "choices": [choice], "usage": _USAGE})
            return
        base["object"] = "chat.completion.chunk"
        chunks = [
            base | {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            base | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
            base | {"choices": [], "usage": _USAGE},
        ]
        text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
        self._send_text(text + "data: [DONE]\n\n", "text/event-stream")

    def _responses(self, body: dict[str, Any]) -> None:
        items = body["input"] if isinstance(body["input"], list) else []
        calls = [
            each for each in items if each.get("type") in ("function_call", "custom_tool_call")
        ]
        turn = len({each["call_id"].split("_")[1] for each in calls})
        step = self._step(items, bool(body.get("tools")), turn)
        said = {"type": "output_text", "text": step.said, "annotations": []}
        message = {"type": "message", "id": f"msg_{turn}", "role": "assistant", "content": [said]}
        output: list[dict[str, Any]] = [message | {"status": "completed"}] if step.said else []
        output += (
            {
                "type": "function_call",
                "id": f"fc_{turn}_{number}",
                "call_id": f"call_{turn}_{number}",
                "name": name,
                "arguments": json.dumps(arguments),
                "status": "completed",
            }
            for number, (name, arguments) in enumerate(step.calls)
        )
        usage = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
        response = {"id": f"resp_{turn}", "object": "response", "created_at": 1, "output": output}
        response |= {"model": "fake-model", "status": "completed", "usage": usage}
        events: list[dict[str, Any]] = [{"type": "response.created", "response": response}]
        for number, each in enumerate(output):
            for kind in ("added", "done"):
                events.append({"type": f"response.output_item.{kind}", "item": each})
                events[-1]["output_index"] = number
        events.append({"type": "response.completed", "response": response})
        self._send_events([(each["type"], each) for each in events])

    def _anthropic(self, body: dict[str, Any]) -> None:
        turn = sum(each.get("role") == "assistant" for each in body["messages"])
        step = self._step(body["messages"], bool(body.get("tools")), turn)
        blocks: list[dict[str, Any]] = [{"type": "text", "text": step.said}] if step.said else []
        blocks += (
            {"type": "tool_use", "id": f"toolu_{turn}_{number}", "name": name, "input": arguments}
            for number, (name, arguments) in enumerate(step.calls)
        )
        end = {"stop_reason": "tool_use" if step.calls else "end_turn", "stop_sequence": None}
        usage = {"input_tokens": 100, "output_tokens": 20}
        message: dict[str, Any] = {"id": f"msg_{turn}", "type": "message", "role": "assistant"}
        message |= {"model": "fake-model", "content": blocks, "usage": usage, **end}
        if not body.get("stream"):
            self._send(message)
            return
        begun = message | {"content": [], "stop_reason": None}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": begun}]
        for number, block in enumerate(blocks):
            if block["type"] == "text":
                empty: dict[str, Any] = {"text": ""}
                delta = {"type": "text_delta", "text": block["text"]}
            else:
                empty = {"input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            events += (
                {"type": "content_block_start", "index": number, "content_block": block | empty},
                {"type": "content_block_delta", "index": number, "delta": delta},
                {"type": "content_block_stop", "index": number},
            )
        events.append({"type": "message_delta", "delta": end, "usage": usage})
        events.append({"type": "message_stop"})
        self._send_events([(each["type"], each) for each in events])

    def _gemini(self, body: dict[str, Any]) -> None:
        contents = body.get("contents", [])
        turn = sum(each.get("role") == "model" for each in contents)
        has_tools = any("functionDeclarations" in each for each in body.get("tools") or ())
        step = self._step(contents, has_tools, turn)
        parts: list[dict[str, Any]] = [{"text": step.said}] if step.said else []
        parts += ({"functionCall": {"name": name, "args": given}} for name, given in step.calls)
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
        answer = {"candidates": [candidate], "modelVersion": "fake-model"}
        if "stream" in self.path:
            self._send_text(f"data: {json.dumps(answer)}\n\n", "text/event-stream")
        else:
            self._send(answer)


def _is_asked(message: Any) -> bool:
    """Return whether a message is a person's: results stand in messages of the user, too."""
    written = json.dumps(message)
    is_result = "tool_result" in written or "functionResponse" in written
    return message.get("role") == "user" and not is_result


@contextmanager
def scripted_model(steps: Sequence[Step]) -> Iterator[str]:
    """Serve a model that takes these steps; yield its address."""
    handler = type("Model", (_Model,), {"steps": steps})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
