"""The resolved job as stored in `job.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tony.model.job_spec import JobSpec
from tony.model.staged_files import StagedJob
from tony.model.value_class import value_class

#: Incremented when a reader of an older version could misread a newer file.
RECORD_VERSION = 1
#: In `JobRecord.sources`: of settings that the submission has added, see `Submitter.pin_cluster`.
PINNED_SOURCE = "submission"
#: `tony_version` of a history entry converted from LinkedIn TonY's.
LINKEDIN_TONY = "the original"


@value_class
class JobRecord:
    """The job, who submitted it and when, and where each value came from.

    Attributes:
        version: RECORD_VERSION of the writer; a reader refuses a higher one.
        submitted: seconds since 1970.
        framework_module: location of the framework's adapter, "module:Class".
        framework_path: folder to add to sys.path for it; None for built-in ones.
        sources: dotted key -> where it was set, for every value that is not a default.
        job_file: its absolute path; empty if there was none, or options were given in addition.
        masked: dotted keys of the values with secrets: masked in every copy of the record but the AM's.
    """

    version: int
    job_id: str
    user: str
    host: str
    submitted: float
    tony_version: str
    spec: JobSpec
    staged: StagedJob
    framework_module: str
    framework_path: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    masked: tuple[str, ...] = ()
    job_file: str = ""
