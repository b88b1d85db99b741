#!/usr/bin/env bash
# Guess: a call that the user approved runs when the messages are sent, also if the user has written something
#     more by then: its approval is in the messages, and its part says that it was answered.
# Package: ai 6.0.326
# Package: zod 4.6.7
# Date: 2026-11-28
# Output: only the last message is searched for approvals. Behind a further one the call does not run, and the
#     request ends in an error that speaks of a missing result. So does each later one of this chat.
#
#     approval last: ran 1 times, Paid.
#     approval, then a message: ran 0 times, AI_MissingToolResultsError
#     and sent again: ran 0 times, AI_MissingToolResultsError
#     a denial, then a message: ran 0 times, AI_MissingToolResultsError
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >npm.txt
npm install --silent --no-audit --no-fund ai@6.0.326 zod@4.6.7 >>npm.txt 2>&1

cat >run.mjs <<'JAVASCRIPT'
import { convertToModelMessages, generateText, tool } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { z } from "zod";

let ran = 0;
const pay = tool({
  inputSchema: z.object({ cents: z.number() }),
  needsApproval: true,
  execute: async () => {
    ran += 1;
    return "paid";
  },
});
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const answer = {
  content: [{ type: "text", text: "Paid." }],
  finishReason: { unified: "stop", raw: "stop" },
  usage,
  warnings: [],
};
const model = new MockLanguageModelV3({ doGenerate: async () => answer });
const user = (id, text) => ({ id, role: "user", parts: [{ type: "text", text }] });
const approval = (approved) => ({
  id: "2",
  role: "assistant",
  parts: [
    { type: "step-start" },
    {
      type: "tool-pay",
      toolCallId: "call_1",
      state: "approval-responded",
      input: { cents: 1200 },
      approval: { id: "approval_1", approved },
    },
  ],
});

async function send(told, messages) {
  ran = 0;
  const tools = { pay };
  let end;
  try {
    const converted = await convertToModelMessages(messages, { tools });
    end = (await generateText({ model, tools, messages: converted })).text;
  } catch (error) {
    end = error.name;
  }
  console.log(`${told}: ran ${ran} times, ${end}`);
}

const asked = user("1", "Pay.");
const chat = [asked, approval(true), user("3", "And hurry.")];
await send("approval last", chat.slice(0, 2));
await send("approval, then a message", chat);
await send("and sent again", [...chat, user("4", "Hello?")]);
await send("a denial, then a message", [asked, approval(false), chat[2]]);
JAVASCRIPT

node run.mjs | tee seen.txt
diff <(sed -n 's/^#     \(.*: ran [0-9] times, .*\)/\1/p' "$here") seen.txt
