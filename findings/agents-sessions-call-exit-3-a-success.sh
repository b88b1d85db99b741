#!/usr/bin/env bash
# Guess: in the session files of command-line agents a shell command that exited with 3 is marked as failed, as a
#     file is that is not there. Who reads the file needs only the mark.
# Package: @github/copilot 1.0.102
# Package: @continuedev/cli 1.5.47
# Date: 2026-11-29
# Output: Copilot CLI marks it as a success, and has the exit code beside the mark. Continue marks it as done, and
#     has no exit code, unless the command wrote to stderr: then the same exit is an error.
#
#     copilot, exit 3: success: true, exit code 3
#     copilot, echo no >&2; exit 3: success: true, exit code 3
#     copilot, a missing file: success: false
#     continue, exit 3: status: done, result: ""
#     continue, echo no >&2; exit 3: status: errored, result: "Error executing tool Bash: Error (exit code 3): no"
#     continue, a missing file: status: errored
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >npm.txt
npm install --silent --no-audit --no-fund @github/copilot@1.0.102 @continuedev/cli@1.5.47 >>npm.txt 2>&1

cat >model.mjs <<'JAVASCRIPT'
// A model that makes the calls of its arguments, one after the other, and then ends.
import { spawn } from "node:child_process";
import { createServer } from "node:http";

const [calls, command] = [JSON.parse(process.argv[2]), process.argv.slice(3)];
const server = createServer(async (request, response) => {
  let text = "";
  for await (const piece of request) text += piece;
  const body = JSON.parse(text || "{}");
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

mkdir -p home/.continue project
export HOME=$folder/home DO_NOT_TRACK=1
cd project
COPILOT_OFFLINE=true COPILOT_AUTO_UPDATE=false COPILOT_PROVIDER_BASE_URL=ADDRESS COPILOT_MODEL=m \
    COPILOT_PROVIDER_API_KEY=x node ../model.mjs '[["bash",{"command":"exit 3","description":"a","mode":"sync"}],
    ["bash",{"command":"echo no >&2; exit 3","description":"b","mode":"sync"}],["view",{"path":"/no/where"}]]' \
    ../node_modules/.bin/copilot --allow-all --no-auto-update -p "Work" 2>../copilot.txt
cat >../configure.sh <<'SHELL'
cat >"$HOME/config.yaml" <<YAML
name: t
version: 0.0.1
schema: v1
models:
  - {name: m, model: m, provider: openai, apiBase: "$1", apiKey: x, roles: [chat], capabilities: [tool_use]}
YAML
exec ../node_modules/.bin/cn --auto --config "$HOME/config.yaml" -p "Work"
SHELL
CONTINUE_TELEMETRY_ENABLED=0 node ../model.mjs '[["Bash",{"command":"exit 3"}],
    ["Bash",{"command":"echo no >&2; exit 3"}],["Read",{"filepath":"/no/where"}]]' \
    bash ../configure.sh ADDRESS 2>../continue.txt

cat >../show.mjs <<'JAVASCRIPT'
import { readdirSync, readFileSync } from "node:fs";

const names = ["exit 3", "echo no >&2; exit 3", "a missing file"];
const home = process.env.HOME;
const session = readdirSync(`${home}/.copilot/session-state`).find((each) => !each.startsWith("."));
readFileSync(`${home}/.copilot/session-state/${session}/events.jsonl`, "utf-8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line))
  .filter((event) => event.type === "tool.execution_complete")
  .forEach(({ data }, number) => {
    const code = data.shellExecution ? `, exit code ${data.shellExecution.exitCode}` : "";
    console.log(`copilot, ${names[number]}: success: ${data.success}${code}`);
  });
const file = readdirSync(`${home}/.continue/sessions`).find((each) => each !== "sessions.json");
JSON.parse(readFileSync(`${home}/.continue/sessions/${file}`, "utf-8"))
  .history.flatMap((each) => each.toolCallStates ?? [])
  .forEach(({ status, output }, number) => {
    const result = number < 2 ? `, result: ${JSON.stringify(output[0].content.trim())}` : "";
    console.log(`continue, ${names[number]}: status: ${status}${result}`);
  });
JAVASCRIPT
node ../show.mjs | tee ../seen.txt
diff <(sed -n 's/^#     \(c[a-z]*, .*\)/\1/p' "$here") ../seen.txt
