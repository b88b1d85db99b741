#!/usr/bin/env bash
# Guess: the message that the stream helper of the JavaScript SDK ends with has the same members as that of the
#     Python SDK. Both keep what they do not know, and `reasoning_content`, which DeepSeek and vLLM stream beside
#     `content` and want back with a call, is joined like `content`.
# Package: openai 7.59.0
# Date: 2026-11-28
# Output: each piece of a member that the helper does not know takes the place of the one before. What is left of the
#     thought are its last words, with nothing that says so. (Python joins them.)
#
#     streamed: Ann asked | for 10. | Paying.
#     content: I pay.
#     reasoning_content: Paying.
#     arguments: {"amount": 10}
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --prefix "$folder" openai@7.59.0

cat >run.mjs <<'JAVASCRIPT'
import OpenAI from "openai";

const THOUGHT = ["Ann asked", " for 10.", " Paying."];
const CALL = { index: 0, id: "c", type: "function", function: { name: "pay", arguments: "" } };
const DELTAS = [
  { role: "assistant", content: "" },
  ...THOUGHT.map((piece) => ({ reasoning_content: piece })),
  { content: "I " },
  { content: "pay." },
  { tool_calls: [CALL] },
  { tool_calls: [{ index: 0, function: { arguments: '{"amount": ' } }] },
  { tool_calls: [{ index: 0, function: { arguments: "10}" } }] },
];

function chunk(delta, reason = null) {
  const choice = { index: 0, delta, finish_reason: reason };
  const known = { id: "1", object: "chat.completion.chunk", created: 1, model: "deepseek" };
  return JSON.stringify({ ...known, choices: [choice] });
}

const data = [...DELTAS.map((delta) => chunk(delta)), chunk({}, "tool_calls"), "[DONE]"];
const body = data.map((line) => `data: ${line}\n\n`).join("");
const headers = { "content-type": "text/event-stream" };
const client = new OpenAI({ apiKey: "none", fetch: async () => new Response(body, { headers }) });
const asked = { model: "deepseek", messages: [{ role: "user", content: "Pay 10." }] };
const completion = await client.chat.completions.stream(asked).finalChatCompletion();
const { message } = completion.choices[0];
console.log("streamed:", THOUGHT.map((piece) => piece.trim()).join(" | "));
console.log("content:", message.content);
console.log("reasoning_content:", message.reasoning_content.trim());
console.log("arguments:", message.tool_calls[0].function.arguments);
JAVASCRIPT

node run.mjs | tee seen.txt
diff <(sed -n 's/^#     \(\(streamed\|content\|reasoning_content\|arguments\): .*\)/\1/p' "$here") seen.txt
