"""`play_forked` as tasks of celery."""

from __future__ import annotations

import os
from pathlib import Path

from integrations.celery_queue import queue_in
from integrations.play_forked import opened_by, work

app = queue_in(Path(os.environ["PLAY_FORKED_QUEUE"]))


@app.task
def play(name: str) -> list[int]:
    """Work on a conversation; return who opened the projector, who worked, and its calls."""
    return [opened_by, *work(name)]
