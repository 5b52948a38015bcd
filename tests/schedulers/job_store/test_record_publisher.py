"""What the last AM attempt leaves of a job, in an order on which clients rely."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

from tony.protocol.launch import AmCredentials
from tony.schedulers.job_store.job_store import JobStore
from tony.schedulers.job_store.record_publisher import RecordPublisher
from tony.testing.sample_jobs import build_prepared_job, build_two_roles


async def test_a_client_that_finds_the_log_of_the_am_finds_the_last_metrics(tmp_path: Path) -> None:
    """It may have the summary already, from the AM itself, and then looks for the log alone."""
    job = build_prepared_job(tmp_path, build_two_roles())
    for path in (job.folder.am_log, job.folder.metrics, job.folder.summary):
        path.write_text("{}")
    store = Mock(spec=JobStore)
    store.find.return_value = None
    await RecordPublisher(store, job.record, Mock(spec=AmCredentials), job.folder, job.folder.am_log).finish(None)
    assert [call.args[0] for call in store.put.call_args_list] == ["metrics.db", "am.log", "summary.json"]
