#!/usr/bin/env bash
# Guess: in a flow of Prefect that is retried the model is asked no second time, as each request to it is a
#     task, whose result Prefect keeps for the flow run. That holds for `PrefectAgent`, and for an agent with
#     `PrefectDurability`, which takes its place.
# Package: pydantic-ai-slim 2.68.0
# Package: prefect 3.9.1
# Date: 2026-11-27
# Output: `PrefectAgent` asks once more, also under the same `run_id`. Its run is a flow of its own inside the
#     flow, and a retry starts another one. Results are kept for each of these. `PrefectDurability` asks once.
#
#     PrefectAgent: attempts 2, requests to the model 2, of 2 runs of a flow
#     PrefectAgent with run_id: attempts 2, requests to the model 2, of 2 runs of a flow
#     PrefectDurability: attempts 2, requests to the model 1, of 1 runs of a flow
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q "pydantic-ai-slim[prefect]==2.68.0" prefect==3.9.1

cat >run.py <<'PYTHON'
import asyncio
import warnings

from prefect import flow
from prefect.runtime import flow_run
from pydantic_ai import Agent
from pydantic_ai.durable_exec.prefect import PrefectAgent, PrefectDurability
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

asked = []


def answer(messages, info):
    asked.append(flow_run.id)
    return ModelResponse([TextPart("Done.")])


def agent(name, *capabilities):
    return Agent(FunctionModel(answer, model_name="fake"), name=name, capabilities=capabilities)


@flow(retries=1, validate_parameters=False)
async def shop(agent, attempts, named):
    options = {"run_id": str(flow_run.id)} if named else {}
    await agent.run("Where is my order?", **options)
    attempts.append(1)
    if len(attempts) == 1:
        raise ConnectionError("lost")


async def main():
    with warnings.catch_warnings(action="ignore"):  # `PrefectAgent` is deprecated
        wrapped, named = PrefectAgent(agent("wrapped")), PrefectAgent(agent("named"))
    for title, each in (
        ("PrefectAgent", wrapped),
        ("PrefectAgent with run_id", named),
        ("PrefectDurability", agent("durable", PrefectDurability())),
    ):
        attempts = []
        asked.clear()
        await shop(each, attempts, each is named)
        counts = f"attempts {len(attempts)}, requests to the model {len(asked)}"
        print(f"{title}: {counts}, of {len(set(asked))} runs of a flow")


asyncio.run(main())
PYTHON
export PREFECT_HOME="$folder/prefect" PREFECT_LOGGING_LEVEL=CRITICAL PREFECT_SERVER_ANALYTICS_ENABLED=false
venv/bin/python run.py 2>errors.txt >seen.txt || { cat errors.txt; exit 1; }
cat seen.txt
diff <(sed -n 's/^#     \(.*: attempts .*\)/\1/p' "$here") seen.txt
