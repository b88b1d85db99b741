"""A crash in the middle of a call, and the process that goes on after it.

    python crash_and_resume.py

The first process is killed with -9 after the bank has paid and before that is in the log. The
second one finds a call whose outcome is unknown. It asks the bank, and nothing is paid twice.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from eventstore import Dispatcher, EventStore, FunctionTool, Outcome, Tool
from projections import resume_plan

BANK = Path("bank.txt")
URL = "sqlite:///crash_and_resume.db"


def refund(order: int) -> str:
    """Pay the money for an order back."""
    with BANK.open("a") as bank:
        bank.write(f"{order}\n")
    if "crash" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"


def ask_bank(tool: Tool) -> Outcome:
    """Return what the bank knows of a call whose outcome is unknown."""
    paid = BANK.read_text().split() if BANK.exists() else []
    if str(tool.effective_call.arguments["order"]) in paid:
        return Outcome.done("paid")
    return Outcome.not_done()


def crash() -> None:
    """Run the call, and be killed in it."""
    with EventStore.open(URL) as store:
        chat = store.conversation("billing-7")
        chat.add_message("user", "Refund order 7.")
        Dispatcher(chat, [refund]).dispatch([chat.request("refund", {"order": 7})])


def resume() -> None:
    """Go on from the log."""
    with EventStore.open(URL) as store:
        chat = store.conversation("billing-7")
        print("unknown:", [step.tool.call.name for step in resume_plan(chat.events()).unknown])
        Dispatcher(chat, [FunctionTool(refund, verify=ask_bank)]).resume()
        print("status:", *(tool.status.name for tool in chat.tools.values()))
        print("paid:", len(BANK.read_text().split()), "time")


if __name__ == "__main__":
    if "crash" in sys.argv:
        crash()
    else:
        subprocess.run([sys.executable, __file__, "crash"], check=False)
        resume()
