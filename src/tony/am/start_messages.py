"""Start commands: each is encoded once, and the same bytes are sent to all executors that it concerns."""

from __future__ import annotations

from typing import Any

from tony.core.actions import Start
from tony.errors import PlatformError, TonyError
from tony.frameworks.base import Framework
from tony.model.codec import Json
from tony.model.job_spec import ClusterSpec
from tony.model.submission_record import JobRecord
from tony.protocol.executor_messages import StartProgram
from tony.protocol.framing import encode_for_many

#: Cached commands; others are encoded again.
_MAX_CACHED_FRAMES = 16


class StartMessages:
    """The start commands of the newest session."""

    def __init__(self, record: JobRecord, framework: Framework, attempt: int) -> None:
        self._record = record
        self._framework = framework
        self._attempt = attempt
        self._session = 0
        self._shared: dict[int, Json] = {}
        self._extra: dict[int, dict[str, Any]] = {}
        self._addressed_roles = record.spec.addressed_roles
        self._frames: dict[tuple[object, ...], bytes] = {}

    def publish(self, spec: ClusterSpec) -> None:
        """Take a cluster spec and ask the framework's adapter for what its tasks need.

        Raises:
            PlatformError: the adapter failed.
        """
        self._enter(spec.session)
        job = self._record.spec.leave_out(spec.absent)
        if spec.absent:
            instances = {name: role.instances for name, role in job.effective_roles.items()}
            self._extra[spec.version] = {
                "absent": spec.absent,
                "instances": instances,
                "num_tasks": job.tracked_count,
            }
        addresses = {name: spec.roles[name][0] for name in sorted(self._addressed_roles) if spec.roles.get(name)}
        if addresses:
            self._extra.setdefault(spec.version, {})["addresses"] = addresses
        try:
            self._shared[spec.version] = self._framework.build_shared(job, spec)
        except TonyError:
            raise
        except Exception as error:  # the adapter may be third-party: name it
            module = self._record.framework_module
            raise PlatformError(f"the framework adapter {module} failed: {type(error).__name__}: {error}") from error

    def encode(self, start: Start) -> bytes:
        """Return the encoded command. It is not specific to one task, so all share the same bytes.

        Raises:
            ProtocolError: the adapter's value is too long for the wire.
        """
        self._enter(start.session)
        which = (start.version, start.try_, *start.variables.items())
        if which not in self._frames:
            if len(self._frames) >= _MAX_CACHED_FRAMES:  # a task may restart for weeks within one session
                self._frames.clear()
            self._frames[which] = encode_for_many(
                StartProgram(
                    attempt=self._attempt,
                    session=start.session,
                    try_=start.try_,
                    version=start.version,
                    shared=self._shared.get(start.version),
                    variables=start.variables,
                    **self._extra.get(start.version, {}),
                )
            )
        return self._frames[which]

    def _enter(self, session: int) -> None:
        """Forget older sessions, so that memory stays bounded."""
        if session > self._session:
            self._session = session
            self._shared.clear()
            self._extra.clear()
            self._frames.clear()
