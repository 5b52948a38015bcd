"""Why sessions began is read from the log without reading all of it."""

from __future__ import annotations

from pathlib import Path

from tests.client.played_master import logged, recorded
from tony.core.events import SessionOpened, Snapshot
from tony.history.log import segments
from tony.history.sessions import session_reasons
from tony.model.layout import Home


def test_reasons(tmp_path: Path) -> None:
    """Other events, and lines that make no sense, say nothing."""
    folder, _ = recorded(Home(tmp_path))
    assert session_reasons(folder) == {}
    logged(
        folder,
        [SessionOpened(session=1, reason="go"), Snapshot(digest="x"), SessionOpened(session=2, reason="it failed")],
    )
    with segments(folder.path)[-1].open("ab") as file:
        file.write(b'"session-opened" torn\n{"event": "session-opened"}\n')
    assert session_reasons(folder) == {1: "go", 2: "it failed"}
