#!/usr/bin/env bash
# Guess: the session that `opencode export` prints has each call that the model made: its tool, and its arguments,
#     also where the tool does not exist. That call has failed, as one that exits with another code than 0 has.
# Package: opencode-ai 1.18.33
# Date: 2026-11-29
# Output: the call of a tool that does not exist is a completed call of another tool, `invalid`. The arguments that
#     the model gave are nowhere in the file, and later requests have the other call. A command that exits with 3 is
#     completed; a file that is not there is an error.
#
#     exported: bash completed (exit 3), read error, invalid completed
#     arguments of the unknown tool in the export: no
#     sent to the model as its own call: invalid
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >npm.txt
npm install --silent --no-audit --no-fund opencode-ai@1.18.33 >>npm.txt 2>&1

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
  if (body.tools) writeFileSync(`${process.env.HOME}/sent.json`, text);
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
export HOME=$folder/home DO_NOT_TRACK=1 XDG_CONFIG_HOME= XDG_DATA_HOME= XDG_STATE_HOME= XDG_CACHE_HOME=
export OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_LSP_DOWNLOAD=1 OPENCODE_DISABLE_MODELS_FETCH=1
cat >configure.sh <<'SHELL'
mkdir -p "$HOME/.config/opencode"
cat >"$HOME/.config/opencode/opencode.json" <<JSON
{"autoupdate": false, "share": "disabled", "permission": "allow", "model": "f/m", "small_model": "f/m",
 "provider": {"f": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "$1", "apiKey": "x"},
  "models": {"m": {"name": "m"}}}}}
JSON
exec ../node_modules/.bin/opencode run "Work"
SHELL
cd project
node ../model.mjs '[["bash",{"command":"exit 3","description":"a"}],["read",{"filePath":"/no/where"}],
    ["no_such_tool",{"city":"Ghent"}]]' bash ../configure.sh ADDRESS 2>../opencode.txt
session=$(../node_modules/.bin/opencode session list --format json | node -p 'JSON.parse(fs.readFileSync(0))[0].id')
../node_modules/.bin/opencode export "$session" >../export.json 2>../export.txt

cat >../show.mjs <<'JAVASCRIPT'
import { readFileSync } from "node:fs";

const text = readFileSync("../export.json", "utf-8");
const parts = JSON.parse(text).messages.flatMap((each) => each.parts).filter((each) => each.type === "tool");
const exit = (state) => (state.metadata?.exit ? ` (exit ${state.metadata.exit})` : "");
console.log(`exported: ${parts.map(({ tool, state }) => `${tool} ${state.status}${exit(state)}`).join(", ")}`);
console.log(`arguments of the unknown tool in the export: ${text.includes("Ghent") ? "yes" : "no"}`);
const sent = JSON.parse(readFileSync(`${process.env.HOME}/sent.json`, "utf-8")).messages;
const made = sent.flatMap((each) => each.tool_calls ?? []).at(-1);
console.log(`sent to the model as its own call: ${made.function.name}`);
JAVASCRIPT
node ../show.mjs | tee ../seen.txt
diff <(sed -n 's/^#     \(exported: .*\|arguments of .*\|sent to .*\)/\1/p' "$here") ../seen.txt
