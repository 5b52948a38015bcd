"""The resolved job as it is kept in `job.json`."""

from __future__ import annotations

from collections.abc import Mapping

from tony.dataclass import dataclass, field
from tony.model.job_spec import JobSpec
from tony.model.staged import StagedJob

#: Raised when a reader of an older version could misread a newer record.
RECORD_VERSION = 1
#: `tony_version` of a record that was made of one of the original's.
ORIGINAL = "the original"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """Who submitted what, when, and where each value came from.

    Attributes:
        version: RECORD_VERSION of the writer; a reader refuses a higher one.
        submitted: seconds since 1970.
        framework_module: where the framework's adapter lives, "module:Class".
        framework_path: folder to add to sys.path for it; None for built-in ones.
        sources: dotted key -> where it was set, for every value that is not a default.
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
