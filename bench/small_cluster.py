"""A small Hadoop for a row of the bench: `tony mini`, in a home of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from bench.harness import CannotRunError
from bench.measured_processes import TIMEOUT_SECONDS, Workshop, tony


class SmallCluster:
    """A context: a cluster with default heartbeats. Enter it inside the workshop, so that it ends first.

    Its daemons become children of this process, which run on when a program has ended: do not wait for all of them.

    Args:
        settings: properties of Hadoop's that overrule those of `tony mini`, each `KEY=VALUE`.

    Attributes:
        conf: what HADOOP_CONF_DIR has to name.
    """

    def __init__(self, shop: Workshop, *, nodes: int = 2, settings: Sequence[str] = ()) -> None:
        self.conf = Path()
        self._environ = {**shop.environ, "TONY_HOME": str(shop.path / "cluster")}
        self._words = ["--nodes", str(nodes), *(word for each in settings for word in ("--set", each))]

    def __enter__(self) -> SmallCluster:
        self._mini("start", *self._words)
        self.conf = Path(self._environ["TONY_HOME"]) / "mini" / "conf"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._mini("stop")

    def _mini(self, *words: str) -> None:
        """Raises `CannotRunError` with what it says: that Java or Maven are missing, for one."""
        command = tony("mini", *words)
        try:
            done = subprocess.run(command, env=self._environ, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise CannotRunError(f"tony mini {words[0]} did not end in {TIMEOUT_SECONDS:.0f} s") from None
        if done.returncode:
            raise CannotRunError(f"tony mini {words[0]}: {done.stderr.decode(errors='replace').strip()[-2000:]}")
