#!/usr/bin/env bash
# Guess: a session of the agents SDK for JavaScript has, after a run that broke off, the user's message, the
#     calls and the outputs of the tools that had run, as that of the SDK for Python has (0.24.0). It makes
#     no difference whether the run was streamed.
# Package: @openai/agents 0.20.0
# Package: zod 4.6.7
# Date: 2026-11-28
# Output: it has nothing of the run, or the user's message alone if the run was streamed. The payment was made,
#     and the next run knows neither of it nor of the wish. Only a guardrail for the output leaves the calls.
#
#     too many turns: paid 1 times, session: nothing
#     too many turns, streamed: paid 1 times, session: message
#     a tool raised: paid 1 times, session: nothing
#     a tool raised, streamed: paid 1 times, session: message
#     the model failed: paid 1 times, session: nothing
#     the model failed, streamed: paid 1 times, session: message
#     an output guardrail: paid 1 times, session: message, function_call, function_call_result
#     an output guardrail, streamed: paid 1 times, session: message, function_call, function_call_result
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >npm.txt
npm install --silent --no-audit --no-fund @openai/agents@0.20.0 zod@4.6.7 >>npm.txt 2>&1

cat >run.mjs <<'JAVASCRIPT'
import { Agent, MemorySession, Runner, tool, Usage } from "@openai/agents";
import { z } from "zod";

let paid = 0;
const parameters = z.object({});
const pay = tool({
  name: "pay",
  description: "Pay.",
  parameters,
  execute: async () => {
    paid += 1;
    return "done";
  },
});
const mail = tool({
  name: "mail",
  description: "Send a mail.",
  parameters,
  errorFunction: null,
  execute: async () => {
    throw new Error("The mail server is away.");
  },
});

const call = (name) => [
  { type: "function_call", name, callId: name, arguments: "{}", status: "completed" },
];
const text = { type: "output_text", text: "Paid." };
const answer = [{ type: "message", role: "assistant", status: "completed", content: [text] }];
const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };

/** A model that gives the outputs in turn, and fails when there is none left. */
class Fake {
  constructor(outputs) {
    this.outputs = [...outputs];
  }

  next() {
    if (this.outputs.length === 0) throw new Error("The model is away.");
    return this.outputs.shift();
  }

  async getResponse() {
    return { usage: new Usage(), output: this.next() };
  }

  async *getStreamedResponse() {
    yield { type: "response_done", response: { id: "r", usage, output: this.next() } };
  }
}

const runner = new Runner({ tracingDisabled: true });
const refusal = { name: "none", execute: async () => ({ tripwireTriggered: true, outputInfo: null }) };
const WAYS = {
  "too many turns": { outputs: [call("pay"), call("pay")], maxTurns: 1 },
  "a tool raised": { outputs: [call("pay"), call("mail")] },
  "the model failed": { outputs: [call("pay")] },
  "an output guardrail": { outputs: [call("pay"), answer], outputGuardrails: [refusal] },
};

for (const [told, { outputs, maxTurns = 9, outputGuardrails = [] }] of Object.entries(WAYS)) {
  for (const stream of [false, true]) {
    paid = 0;
    const session = new MemorySession();
    const model = new Fake(outputs);
    const agent = new Agent({ name: "shop", model, tools: [pay, mail], outputGuardrails });
    try {
      const result = await runner.run(agent, "Pay.", { session, stream, maxTurns });
      if (stream) {
        for await (const event of result);
        await result.completed;
      }
      console.log(`${told}: it did not break off`);
    } catch {
      const kinds = (await session.getItems()).map((item) => item.type ?? item.role);
      const way = stream ? ", streamed" : "";
      console.log(`${told}${way}: paid ${paid} times, session: ${kinds.join(", ") || "nothing"}`);
    }
  }
}
JAVASCRIPT

node run.mjs 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(.*: paid [0-9] times, session: .*\)/\1/p' "$here") seen.txt
