#!/usr/bin/env bash
# Guess: a tool that yields its progress writes a part with `preliminary: true` until it ends. A chat that was saved
#     in between has a call without a result: sent again, the model does not read the progress as the result.
# Package: ai 7.0.173
# Package: zod 4.6.7
# Date: 2026-11-28
# Output: the mark is not looked at. The model reads the last progress as what the tool returned, and the request
#     is not refused, as it is for a call that waits for its result.
#
#     while it ran: call, result "50 % of 12 invoices paid"
#     at its end: call, result "12 invoices paid"
#     not begun: call
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
  inputSchema: z.object({ count: z.number() }),
  async *execute({ count }) {
    yield `50 % of ${count} invoices paid`;
    yield `${count} invoices paid`;
  },
});
const asked = { id: "1", role: "user", parts: [{ type: "text", text: "Pay." }] };

async function send(told, fields) {
  const call = { type: "tool-pay", toolCallId: "call_1", input: { count: 12 }, ...fields };
  const chat = [asked, { id: "2", role: "assistant", parts: [{ type: "step-start" }, call] }];
  const sent = (await convertToModelMessages(chat, { tools: { pay } })).slice(1);
  const parts = sent.flatMap((message) => message.content);
  const shown = parts.map((part) =>
    part.type === "tool-call" ? "call" : `result ${JSON.stringify(part.output.value)}`,
  );
  console.log(`${told}: ${shown.join(", ")}`);
}

const progress = "50 % of 12 invoices paid";
await send("while it ran", { state: "output-available", output: progress, preliminary: true });
await send("at its end", { state: "output-available", output: "12 invoices paid" });
await send("not begun", { state: "input-available" });
JAVASCRIPT

node run.mjs | tee seen.txt
diff <(sed -n 's/^#     \(.*: call.*\)/\1/p' "$here") seen.txt
