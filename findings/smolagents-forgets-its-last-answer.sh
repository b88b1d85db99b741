#!/usr/bin/env bash
# Guess: what an agent answered is in its memory, so that a second run with `reset=False` has it in its request.
#     That holds, too, for the answer that it gives when its steps are used up.
# Package: smolagents 1.26.0
# Date: 2026-11-28
# Output: the answer that is asked of the model behind the last step is returned, and is in the agent's memory.
#     It is not in the messages which that becomes: there the run ends with an error. The user thanks for an
#     answer, or asks about it, and the model has never given it.
#
#     within its steps: answered Paris
#     within its steps: its memory has the answer: True
#     within its steps: the next request has the answer: True
#     out of steps: answered Paris
#     out of steps: its memory has the answer: True
#     out of steps: the next request has the answer: False
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q smolagents==1.26.0

cat >run.py <<'PYTHON'
from smolagents import ChatMessage, Model, ToolCallingAgent, tool
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole


class Fake(Model):
    """Gives what it is made with in turn: a text, or the name and the arguments of a call."""

    def __init__(self, *turns):
        super().__init__(model_id="fake")
        self.turns = list(turns)

    def generate(self, messages, **kwargs):
        self.request = str([message.content for message in messages])
        said = self.turns.pop(0)
        if isinstance(said, str):
            return ChatMessage(role=MessageRole.ASSISTANT, content=said)
        name, arguments = said
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        call = ChatMessageToolCall(id=f"call_{len(self.turns)}", type="function", function=function)
        return ChatMessage(role=MessageRole.ASSISTANT, content=None, tool_calls=[call])


@tool
def look() -> str:
    """Look at the map."""
    return "a map"


def tell(told, max_steps, *turns):
    end = ("final_answer", {"answer": "You are welcome."})
    model = Fake(*turns, end)
    agent = ToolCallingAgent(tools=[look], model=model, max_steps=max_steps, verbosity_level=-1)
    answer = agent.run("Which city is this?")
    print(f"{told}: answered {answer}")
    print(f"{told}: its memory has the answer: {'Paris' in str(agent.memory.get_full_steps())}")
    agent.run("Thanks.", reset=False)
    print(f"{told}: the next request has the answer: {'Paris' in model.request}")


tell("within its steps", 2, ("look", {}), ("final_answer", {"answer": "Paris"}))
tell("out of steps", 1, ("look", {}), "Paris")
PYTHON

venv/bin/python -W ignore run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(\(within its steps\|out of steps\): .*\)/\1/p' "$here") seen.txt
