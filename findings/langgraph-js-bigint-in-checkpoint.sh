#!/usr/bin/env bash
# Guess: a BigInt in the state of LangGraph for JavaScript comes back from a checkpoint as a BigInt, or the run
#     that would store it raises, as JSON has none.
# Package: @langchain/langgraph 1.7.3
# Package: @langchain/langgraph-checkpoint-sqlite 1.0.4
# Date: 2026-11-28
# Output: the run goes on and pauses as it should. In place of the whole checkpoint, one text is stored, which
#     speaks of circular references. All values of the state are gone, and the answer cannot be taken.
#
#     a number, run: waits for an answer
#     a number, stored: customer, cents
#     a number, resumed: paid
#     a BigInt, run: waits for an answer
#     a BigInt, stored: nothing
#     a BigInt, resumed: Error
#     its row: "[unable to serialize, circular reference is too complex to analyze]"
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >npm.txt
npm install --silent --no-audit --no-fund @langchain/langgraph@1.7.3 \
    @langchain/langgraph-checkpoint-sqlite@1.0.4 >>npm.txt 2>&1

cat >run.mjs <<'JAVASCRIPT'
import { Annotation, Command, interrupt, START, StateGraph } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";

const State = Annotation.Root({ customer: Annotation(), cents: Annotation(), paid: Annotation() });
const thread = { configurable: { thread_id: "1" } };

async function shop(told, cents) {
  const checkpointer = SqliteSaver.fromConnString(":memory:");
  const graph = new StateGraph(State)
    .addNode("price", () => ({ cents }))
    .addNode("pay", () => ({ paid: interrupt("Pay?") }))
    .addEdge(START, "price")
    .addEdge("price", "pay")
    .compile({ checkpointer });
  const result = await graph.invoke({ customer: "ann" }, thread);
  console.log(`${told}, run: ${result.__interrupt__ ? "waits for an answer" : "ended"}`);
  const rows = checkpointer.db.prepare("SELECT checkpoint FROM checkpoints ORDER BY checkpoint_id");
  const text = String(rows.all().at(-1).checkpoint);
  const names = Object.keys(JSON.parse(text).channel_values ?? {});
  const kept = names.filter((name) => name in State.spec);
  console.log(`${told}, stored: ${kept.join(", ") || "nothing"}`);
  try {
    const { paid } = await graph.invoke(new Command({ resume: "yes" }), thread);
    console.log(`${told}, resumed: ${paid ? "paid" : "not paid"}`);
  } catch (error) {
    console.log(`${told}, resumed: ${error.name}`);
    console.log(`its row: ${text}`);
  }
}

await shop("a number", 1200);
await shop("a BigInt", 1200n);
JAVASCRIPT

node run.mjs | tee seen.txt
diff <(sed -n 's/^#     \(\(a .*, \(run\|stored\|resumed\)\|its row\): .*\)/\1/p' "$here") seen.txt
