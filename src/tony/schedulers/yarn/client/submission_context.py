"""The submission context: what the client requests for an application. Pure, for golden tests and `--dry-run`."""

from __future__ import annotations

from typing import Any

from tony.hadoop.wire.application_client import ApplicationSubmissionContext, TimeoutSeconds, TimeoutType
from tony.hadoop.wire.yarn_records import (
    ApplicationId,
    ContainerLaunchContext,
    LogAggregationContext,
    Priority,
    ResourceRequest,
)
from tony.model.submission_record import JobRecord
from tony.schedulers.client_interface import ATTEMPTS_WITHIN
from tony.schedulers.yarn.client.application_tags import build_tags
from tony.schedulers.yarn.resources import build_master_capability
from tony.schedulers.yarn.settings import YarnSettings

_TYPE_LENGTH = 20


def build_submission(
    record: JobRecord,
    settings: YarnSettings,
    application: ApplicationId,
    container: ContainerLaunchContext,
    *,
    cancel_tokens: bool = True,
) -> ApplicationSubmissionContext:
    """Build the submission context of the application.

    Args:
        cancel_tokens: YARN shall cancel its delegation tokens when it has ended.
    """
    label = settings.am_node_label or settings.node_label
    seconds = settings.lifetime
    more: dict[str, Any] = {} if cancel_tokens else {"cancel_tokens_when_complete": False}
    return ApplicationSubmissionContext(
        application_id=application,
        name=record.spec.name,
        queue=settings.queue,
        priority=None if settings.priority is None else Priority(priority=settings.priority),
        am_container=container,
        max_attempts=record.spec.am_attempts,
        keep_containers=True,
        application_type=settings.application_type[:_TYPE_LENGTH],
        tags=build_tags(settings),
        resource=build_master_capability(settings),
        am_requests=(
            ResourceRequest(
                priority=Priority(priority=0),
                resource_name="*",
                capability=build_master_capability(settings),
                num_containers=1,
                node_label_expression=label,
            ),
        ),
        node_label_expression=settings.node_label,
        attempt_failures_validity_interval=int(ATTEMPTS_WITHIN * 1000),
        log_aggregation=_build_log_context(settings),
        timeouts=(TimeoutSeconds(type=TimeoutType.LIFETIME, timeout=int(seconds)),) if seconds else (),
        **more,
    )


def _build_log_context(settings: YarnSettings) -> LogAggregationContext | None:
    """Return the log aggregation patterns. Without any, YARN skips files that are still being written."""
    in_the_end = (settings.log_include, settings.log_exclude)
    rolled = (settings.rolled_log_include, settings.rolled_log_exclude)
    given: dict[str, Any] = {}
    if any(in_the_end) or any(rolled):
        given.update(include=in_the_end[0] or ".*", exclude=in_the_end[1] or "")
    if any(rolled):
        given.update(rolled_include=rolled[0] or ".*", rolled_exclude=rolled[1] or "")
    return LogAggregationContext(**given) if given else None
