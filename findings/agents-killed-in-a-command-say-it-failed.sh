#!/usr/bin/env bash
# Guess: a coding agent that was killed while a command ran, and is continued, tells its model so: the call was
#     interrupted, and may have taken effect. What the model is told stands in the session file.
# Package: @qwen-code/qwen-code 0.24.4
# Package: @earendil-works/pi-coding-agent 1.6.0
# Package: node 24.21.0
# Date: 2026-11-29
# Output: one says that it is to be treated as a failure and tried again, the other that there is no result. The
#     command ran on behind the killed agent, and took effect after that was said. The file has none of these words.
#
#     qwen, told: Tool execution result was not recorded — likely interrupted by network failure, abort, or process exit. Treat as failure and retry if needed.
#     qwen, told words in the session file: no
#     qwen, took effect afterwards: yes
#     pi, told: No result provided
#     pi, told words in the session file: no
#     pi, took effect afterwards: yes
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >npm.txt
npm install --silent --no-audit --no-fund @qwen-code/qwen-code@0.24.4 @earendil-works/pi-coding-agent@1.6.0 \
    node@24.21.0 >>npm.txt 2>&1

cat >killed.mjs <<'JAVASCRIPT'
// A model that asks for one command. The agent is killed in the middle of it, and started again.
import { spawn } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { createServer } from "node:http";

const [name, tool, more, sessions, command, again] = process.argv.slice(2).map((each) => JSON.parse(each));
const home = process.env.HOME;
const [begun, finished] = [`${home}/begun`, `${home}/finished`];
let requests = [];

const server = createServer(async (request, response) => {
  let text = "";
  for await (const piece of request) text += piece;
  const body = JSON.parse(text || "{}");
  if (body.tools) requests.push(body.messages);
  const script = `touch ${begun}; sleep 25; touch ${finished}`;
  const calls = body.tools && !existsSync(begun) && [
    {
      index: 0,
      id: "call_0",
      type: "function",
      function: { name: tool, arguments: JSON.stringify({ command: script, ...more }) },
    },
  ];
  const base = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "m" };
  const delta = { role: "assistant", content: calls ? "" : "Done.", ...(calls && { tool_calls: calls }) };
  const reason = calls ? "tool_calls" : "stop";
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  response.setHeader("content-type", body.stream ? "text/event-stream" : "application/json");
  if (!body.stream) {
    const choices = [{ index: 0, message: delta, finish_reason: reason }];
    response.end(JSON.stringify({ ...base, object: "chat.completion", choices, usage }));
    return;
  }
  for (const chunk of [
    { ...base, choices: [{ index: 0, delta, finish_reason: null }] },
    { ...base, choices: [{ index: 0, delta: {}, finish_reason: reason }] },
    { ...base, choices: [], usage },
  ])
    response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  response.end("data: [DONE]\n\n");
});

const until = async (path) => {
  for (let tries = 0; tries < 900 && !existsSync(path); tries++)
    await new Promise((resolve) => setTimeout(resolve, 100));
};

server.listen(0, "127.0.0.1", async () => {
  const address = `http://127.0.0.1:${server.address().port}/v1`;
  const environment = { ...process.env, MODEL: address, OPENAI_BASE_URL: address };
  const options = { env: environment, stdio: "ignore", detached: true };
  const start = (given) => spawn("sh", ["-c", given], options);
  const ended = (child) => new Promise((resolve) => child.on("exit", resolve));
  const killed = start(command);
  await until(begun);
  const end = ended(killed);
  process.kill(-killed.pid, "SIGKILL");
  await end;
  requests = [];
  await ended(start(again));
  const was = existsSync(finished);
  const result = requests[0].find((each) => each.role === "tool");
  const content = result.content;
  const told = typeof content === "string" ? content : content.map((each) => each.text).join("");
  console.log(`${name}, told: ${told}`);
  const files = globSync(`${home}/${sessions}`).map((path) => readFileSync(path, "utf-8"));
  if (!files.some((each) => each.includes("sleep 25"))) throw new Error("no session file has the call");
  const kept = files.some((each) => each.includes(told.slice(0, 30)));
  console.log(`${name}, told words in the session file: ${kept ? "yes" : "no"}`);
  await until(finished);
  console.log(`${name}, took effect afterwards: ${!was && existsSync(finished) ? "yes" : "no"}`);
  process.exit(0);
});
JAVASCRIPT

mkdir -p qwen/.qwen pi/.pi/agent project
cat >qwen/.qwen/settings.json <<'JSON'
{
  "privacy": { "usageStatisticsEnabled": false },
  "telemetry": { "enabled": false },
  "general": { "disableAutoUpdate": true }
}
JSON
cat >settings.json <<'JSON'
{"providers": {"fake": {"baseUrl": "MODEL", "api": "openai-completions", "apiKey": "x",
  "models": [{"id": "m", "name": "m", "input": ["text"]}]}}}
JSON
export DO_NOT_TRACK=1 PI_OFFLINE=1 OPENAI_API_KEY=x OPENAI_MODEL=m PATH=$folder/node_modules/.bin:$PATH
cd project
ask="exec qwen --yolo --auth-type openai"
HOME=$folder/qwen node ../killed.mjs '"qwen"' '"run_shell_command"' \
    '{"description":"a","is_background":false}' '".qwen/projects/*/chats/*.jsonl"' \
    "\"$ask -p Work\"" "\"$ask --continue -p On\"" | tee ../seen.txt
# The address of the model is known only now.
ask="sed s#MODEL#\$MODEL# ../settings.json >\$HOME/.pi/agent/models.json; exec pi --provider fake --model m"
HOME=$folder/pi node ../killed.mjs '"pi"' '"bash"' '{}' '".pi/agent/sessions/*/*.jsonl"' \
    "\"$ask -p Work\"" "\"$ask --continue -p On\"" | tee -a ../seen.txt
diff <(sed -n 's/^#     \(\(qwen\|pi\), .*\)/\1/p' "$here") ../seen.txt
