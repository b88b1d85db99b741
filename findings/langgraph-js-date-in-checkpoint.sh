#!/usr/bin/env bash
# Guess: the checkpoints of LangGraph for JavaScript give back what JSON cannot say, such as a Map, a Set, a
#     regular expression, bytes and undefined, with its type. So they do with a Date, which is more common.
# Package: @langchain/langgraph 1.7.3
# Package: @langchain/langgraph-checkpoint-sqlite 1.0.4
# Date: 2026-11-28
# Output: a Date comes back as text, in memory as well, and NaN as null. A Date makes itself text before the
#     serializer sees it. The node that runs at once is given a Date; the one that runs after a pause, a text.
#
#     Map: Map before the pause, Map after it
#     Set: Set before the pause, Set after it
#     RegExp: RegExp before the pause, RegExp after it
#     Uint8Array: Uint8Array before the pause, Uint8Array after it
#     undefined: undefined before the pause, undefined after it
#     Date: Date before the pause, String after it
#     NaN: Number before the pause, null after it
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >npm.txt
npm install --silent --no-audit --no-fund @langchain/langgraph@1.7.3 \
    @langchain/langgraph-checkpoint-sqlite@1.0.4 >>npm.txt 2>&1

cat >run.mjs <<'JAVASCRIPT'
import { Annotation, Command, interrupt, MemorySaver, START, StateGraph } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";

const VALUES = {
  Map: new Map([["tea", 2]]),
  Set: new Set(["tea"]),
  RegExp: /tea/g,
  Uint8Array: new Uint8Array([1, 2]),
  undefined: undefined,
  Date: new Date(0),
  NaN: NaN,
};
const State = Annotation.Root({ order: Annotation() });
const thread = { configurable: { thread_id: "1" } };
const typeOf = (value) => value?.constructor.name ?? String(value);

async function seenTypes(value, checkpointer) {
  const seen = [];
  const graph = new StateGraph(State)
    .addNode("take", () => ({ order: { value } }))
    .addNode("check", (state) => void seen.push(typeOf(state.order.value)) ?? {})
    .addNode("ask", () => void interrupt("Pay?") ?? {})
    .addNode("pay", (state) => void seen.push(typeOf(state.order.value)) ?? {})
    .addEdge(START, "take")
    .addEdge("take", "check")
    .addEdge("check", "ask")
    .addEdge("ask", "pay")
    .compile({ checkpointer });
  await graph.invoke({ order: null }, thread);
  await graph.invoke(new Command({ resume: "yes" }), thread);
  return seen;
}

for (const [name, value] of Object.entries(VALUES)) {
  const stored = await seenTypes(value, SqliteSaver.fromConnString(":memory:"));
  const held = await seenTypes(value, new MemorySaver());
  if (String(stored) !== String(held)) console.log(`${name}: in memory it is otherwise: ${held}`);
  console.log(`${name}: ${stored[0]} before the pause, ${stored[1]} after it`);
}
JAVASCRIPT

node run.mjs | tee seen.txt
diff <(sed -n 's/^#     \(.*: .* before the pause, .*\)/\1/p' "$here") seen.txt
