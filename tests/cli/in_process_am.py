"""A fake AM in the same process as the command."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.jobs.fake_am import FakeAm
from tests.support.waiting import wait_until
from tony.client import python_api
from tony.model.job_report import JobReport
from tony.model.state_directory import JobFolder


class Beside:
    """Drives a master from another thread than its own."""

    def __init__(self, master: FakeAm) -> None:
        self.master = master

    def change(self, report: JobReport) -> None:
        async def do() -> None:
            self.master.change(report)

        python_api.run(do())

    def finish(self, report: JobReport) -> None:
        python_api.run(self.master.finish(report))

    def wait(self, condition: Callable[[], object]) -> None:
        python_api.run(wait_until(condition))

    @contextmanager
    def story(self, tell: Callable[[Beside], None]) -> Iterator[None]:
        """Lets something happen while a command line runs; an error in it comes out here."""
        errors: list[BaseException] = []

        def run() -> None:
            try:
                tell(self)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            thread.join(30)
        assert errors == []


@contextmanager
def living(folder: JobFolder, report: JobReport) -> Iterator[Beside]:
    master = FakeAm(folder, report)
    python_api.run(master.__aenter__())
    try:
        yield Beside(master)
    finally:
        python_api.run(master.die())
