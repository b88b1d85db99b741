#!/usr/bin/env bash
# Guess: a session file tells one history. Where Kimi Code writes a result down twice (as `tool.result`, and again
#     as a message of the turn), both are what the model was sent.
# Package: @moonshot-ai/kimi-code 2.1.0
# Package: node 24.21.0
# Date: 2026-11-29
# Output: the result of a tool that does not exist has two texts, and the model was sent a third, which begins with a
#     line that the file has nowhere. All messages of a turn have the time of its end.
#
#     tool.result: Tool "no_such_tool" not found
#     message:     unknown tool: no_such_tool
#     sent:        "<system>ERROR: Tool execution failed.</system>\nTool \"no_such_tool\" not found"
#     times of 3 results: 3; of the messages of the turn: 1
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >npm.txt
npm install --silent --no-audit --no-fund @moonshot-ai/kimi-code@2.1.0 node@24.21.0 >>npm.txt 2>&1

cat >model.mjs <<'JAVASCRIPT'
// A model that makes the calls of its arguments, one after the other, and then ends.
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";

const [calls, command] = [JSON.parse(process.argv[2]), process.argv.slice(3)];
const server = createServer(async (request, response) => {
  let text = "";
  for await (const piece of request) text += piece;
  const body = JSON.parse(text || "{}");
  if (body.messages) writeFileSync(`${process.env.HOME}/sent.json`, text);
  const turn = (body.messages ?? []).filter((each) => each.role === "assistant").length;
  const call = body.tools ? calls[turn] : undefined;
  const made = call && [
    {
      index: 0,
      id: `call_${turn}`,
      type: "function",
      function: { name: call[0], arguments: JSON.stringify(call[1]) },
    },
  ];
  const base = { id: `chatcmpl-${turn}`, object: "chat.completion.chunk", created: 1, model: "m" };
  const delta = { role: "assistant", content: made ? "" : "Done.", ...(made && { tool_calls: made }) };
  const reason = made ? "tool_calls" : "stop";
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  if (body.stream) {
    response.setHeader("content-type", "text/event-stream");
    for (const chunk of [
      { ...base, choices: [{ index: 0, delta, finish_reason: null }] },
      { ...base, choices: [{ index: 0, delta: {}, finish_reason: reason }] },
      { ...base, choices: [], usage },
    ])
      response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    response.end("data: [DONE]\n\n");
  } else {
    response.setHeader("content-type", "application/json");
    const choices = [{ index: 0, message: delta, finish_reason: reason }];
    response.end(JSON.stringify({ ...base, object: "chat.completion", choices, usage }));
  }
});
server.listen(0, "127.0.0.1", () => {
  const address = `http://127.0.0.1:${server.address().port}/v1`;
  const named = command.map((each) => each.replaceAll("ADDRESS", address));
  const environment = {};
  for (const [key, value] of Object.entries(process.env))
    environment[key] = value.replaceAll("ADDRESS", address);
  spawn(named[0], named.slice(1), { env: environment, stdio: ["ignore", "ignore", "inherit"] }).on(
    "exit",
    (code) => process.exit(code),
  );
});
JAVASCRIPT

mkdir -p home project
export HOME=$folder/home DO_NOT_TRACK=1 KIMI_DISABLE_TELEMETRY=1 KIMI_CODE_NO_AUTO_UPDATE=1
cd project
KIMI_MODEL_NAME=m KIMI_MODEL_API_KEY=x KIMI_MODEL_PROVIDER_TYPE=openai KIMI_MODEL_BASE_URL=ADDRESS \
    PATH=$folder/node_modules/.bin:$PATH node ../model.mjs '[["Bash",{"command":"sleep 0.1"}],
    ["Bash",{"command":"sleep 0.1"}],["no_such_tool",{"x":1}]]' kimi -p "Work" 2>../kimi.txt

cat >../show.mjs <<'JAVASCRIPT'
import { readFileSync } from "node:fs";

const lines = (path) => readFileSync(path, "utf-8").trim().split("\n").map((line) => JSON.parse(line));
const records = lines(process.argv[2]);
const results = records.filter((each) => each.event?.type === "tool.result");
const messages = records.filter((each) => each.type === "agent.message.appended");
const kept = messages.filter((each) => each.message.message.role === "tool").at(-1);
const sent = JSON.parse(readFileSync(`${process.env.HOME}/sent.json`, "utf-8")).messages;
const text = (content) => (typeof content === "string" ? content : content.map((each) => each.text).join(""));
console.log(`tool.result: ${text(results.at(-1).event.result.output)}`);
console.log(`message:     ${text(kept.message.message.content)}`);
console.log(`sent:        ${JSON.stringify(text(sent.filter((each) => each.role === "tool").at(-1).content))}`);
const times = (each) => new Set(each.map(({ time }) => time)).size;
const replies = messages.filter((each) => each.message.message.role !== "user");
console.log(`times of ${results.length} results: ${times(results)}; of the messages of the turn: ${times(replies)}`);
JAVASCRIPT
node ../show.mjs "$HOME"/.kimi-code/sessions/*/*/agents/main/wire.jsonl | tee ../seen.txt
diff <(sed -n 's/^#     \([a-z.]*: .*\|times of .*\)/\1/p' "$here") ../seen.txt
