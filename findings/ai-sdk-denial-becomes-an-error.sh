#!/usr/bin/env bash
# Guess: a denied call is a denial for the model, too: its result has the type `execution-denied`, whether the chat
#     is sent right after the answer (`approval-responded`) or again later (`output-denied`).
# Package: ai 7.0.173
# Package: zod 4.6.7
# Date: 2026-11-28
# Output: right after the answer it is one. Once the part says `output-denied`, the same denial is an `error-text`,
#     as if the tool had run and failed. Saved messages of the model have the person's reason for an error's text.
#
#     approval-responded: execution-denied, reason "not today"
#     output-denied: error-text, value "not today"
#     output-error: error-text, value "the bank is closed"
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >npm.txt
npm install --silent --no-audit --no-fund ai@7.0.173 zod@4.6.7 >>npm.txt 2>&1

cat >run.mjs <<'JAVASCRIPT'
import { convertToModelMessages, tool } from "ai";
import { z } from "zod";

const pay = tool({
  inputSchema: z.object({ cents: z.number() }),
  execute: async () => "paid",
});
const asked = { id: "1", role: "user", parts: [{ type: "text", text: "Pay." }] };
const approval = { id: "approval_1", approved: false, reason: "not today" };

async function send(state, fields) {
  const call = { type: "tool-pay", toolCallId: "call_1", state, input: { cents: 1200 }, ...fields };
  const chat = [asked, { id: "2", role: "assistant", parts: [{ type: "step-start" }, call] }];
  const sent = await convertToModelMessages(chat, { tools: { pay } });
  const [{ output }] = sent.at(-1).content.filter((part) => part.type === "tool-result");
  const said = "value" in output ? "value" : "reason";
  console.log(`${state}: ${output.type}, ${said} ${JSON.stringify(output[said])}`);
}

await send("approval-responded", { approval });
await send("output-denied", { approval });
await send("output-error", { errorText: "the bank is closed" });
JAVASCRIPT

node run.mjs | tee seen.txt
diff <(sed -n 's/^#     \(.*: e.*\)/\1/p' "$here") seen.txt
