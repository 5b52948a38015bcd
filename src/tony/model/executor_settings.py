"""Settings that executors get unchanged: declare one here and it is in job files, job records and launch contexts.

The user's program may see all of them. A setting that only the AM may know belongs in `job_spec`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields

from tony.model.own_rule import OwnRule
from tony.model.setting_choices import DistributedMode, ReservedPort
from tony.model.value_class import value_class


@value_class
class JobProgramSettings:
    """Settings of a job for all its programs.

    Attributes:
        secret: names of variables and parameters whose values are masked, besides those that look secret by their name.
        container_env: variables of the containers themselves, the application master's too; `env` overrides them.
        hadoop_classpath: programs get a CLASSPATH that includes their node's Hadoop.
        params: values for `{params.NAME}`.
        python_stacks: install a hook with which Python programs dump their stack traces on request.
        log_limit: bytes that one task's stream keeps on disk; older output is rotated away.
        diagnosis_rules: rules for lines of output, ahead of those of tony.
    """

    secret: tuple[str, ...] = ()
    container_env: Mapping[str, str] = field(default_factory=dict)
    hadoop_classpath: bool = False
    params: Mapping[str, str] = field(default_factory=dict)
    distributed_mode: DistributedMode = DistributedMode.GANG
    python_stacks: bool = True
    log_limit: int = 256 << 20
    diagnosis_rules: tuple[OwnRule, ...] = ()

    @property
    def program_settings(self) -> JobProgramSettings:
        """Return these settings alone."""
        return JobProgramSettings(**{field.name: getattr(self, field.name) for field in fields(JobProgramSettings)})


@value_class
class RoleProgramSettings:
    """Settings of a role for its programs.

    Attributes:
        port: what happens to its tasks' reserved ports when their programs start.
        exports: variable -> text: what follows the text in the last line of the program's output that contains it
            becomes the variable, in every program of other roles that is started later.
        progress_pattern: regular expression: its groups `step`, `total` and others are numbers in lines of the output.
        progress_summaries: folder in which its programs write event files for TensorBoard; placeholders are not yet
            filled in.
    """

    port: ReservedPort = ReservedPort.RESERVED
    exports: Mapping[str, str] = field(default_factory=dict)
    progress_pattern: str | None = None
    progress_summaries: str | None = None

    @property
    def program_settings(self) -> RoleProgramSettings:
        """Return these settings alone."""
        return RoleProgramSettings(**{field.name: getattr(self, field.name) for field in fields(RoleProgramSettings)})
