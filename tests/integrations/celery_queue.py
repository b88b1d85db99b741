"""A queue of celery whose messages and results are files."""

from __future__ import annotations

from pathlib import Path

from celery import Celery


def queue_in(folder: Path) -> Celery:
    """Return the queue in a folder."""
    places = {name: folder / name for name in ("messages", "control", "results")}
    for place in places.values():
        place.mkdir(exist_ok=True, parents=True)
    app = Celery("play", broker="filesystem://", backend=f"file://{places['results']}")
    app.conf.update(
        broker_transport_options={
            "data_folder_in": str(places["messages"]),
            "data_folder_out": str(places["messages"]),
            "control_folder": str(places["control"]),
        },
        worker_prefetch_multiplier=1,
    )
    return app
