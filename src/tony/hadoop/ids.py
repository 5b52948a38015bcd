"""The names of applications and containers, as YARN writes them.

    application_1410901177871_0001
    container_1410901177871_0001_01_000005, container_e17_1410901177871_0001_01_000005

`e17`: the ResourceManager has been restarted 17 times since. A container's sequence starts again with each restart, so
only the whole name is unique. Numbers are padded to 4, 2 and 6 digits, and may be longer.
"""

from __future__ import annotations

import re
from typing import Final

from tony.errors import UserError
from tony.hadoop.wire.yarn_records import ApplicationAttemptId, ApplicationId, ContainerId

_SEQUENCE_BITS: Final = 40
_SEQUENCE: Final = (1 << _SEQUENCE_BITS) - 1
_NUMBER: Final = r"([0-9]{1,19})"
_APPLICATION: Final = re.compile(rf"application_{_NUMBER}_{_NUMBER}")
_CONTAINER: Final = re.compile(rf"container_(?:e{_NUMBER}_)?{_NUMBER}_{_NUMBER}_{_NUMBER}_{_NUMBER}")


class InvalidIdError(UserError):
    """A text that is not a valid id."""


def parse_application_id(text: str) -> ApplicationId:
    """Read `application_1410901177871_0001`.

    Raises:
        InvalidIdError: it is no such name.
    """
    stamp, number = _parse_numbers(_APPLICATION, text, "an application", "application_1410901177871_0001")
    return _build_application(text, stamp, number)


def parse_container_id(text: str) -> ContainerId:
    """Read `container_1410901177871_0001_01_000005` and `container_e17_1410901177871_0001_01_000005`.

    Raises:
        InvalidIdError: it is no such name.
    """
    epoch, stamp, number, attempt, sequence = _parse_numbers(
        _CONTAINER, text, "a container", "container_e17_1410901177871_0001_01_000005"
    )
    application = _build_application(text, stamp, number)
    # As Hadoop writes it, so that it equals the same id in a response: only the attempt holds the application.
    return ContainerId(
        attempt=ApplicationAttemptId(application=application, number=_check_below(text, attempt, 31)),
        number=_check_below(text, epoch, 23) << _SEQUENCE_BITS | _check_below(text, sequence, _SEQUENCE_BITS),
    )


def _parse_numbers(pattern: re.Pattern[str], text: str, what: str, example: str) -> list[int]:
    match = pattern.fullmatch(text.strip())
    if match is None:
        raise InvalidIdError(f"{text!r} is not the name of {what}; such a name looks like {example}")
    return [int(number or 0) for number in match.groups()]


def _check_below(text: str, number: int, bits: int) -> int:
    if number >> bits:
        raise InvalidIdError(f"{text!r}: {number} is too large a number there")
    return number


def _build_application(text: str, stamp: int, number: int) -> ApplicationId:
    return ApplicationId(number=_check_below(text, number, 31), cluster_timestamp=_check_below(text, stamp, 63))


def format_application(application: ApplicationId) -> str:
    """Write `application_1410901177871_0001`."""
    return f"application_{_format_application_part(application)}"


def format_container(container: ContainerId) -> str:
    """Write `container_1410901177871_0001_01_000005`."""
    number = container.number or 0
    epoch = number >> _SEQUENCE_BITS
    attempt = container.attempt or ApplicationAttemptId(application=container.application)
    return (
        f"container_{f'e{epoch:02}_' if epoch else ''}{_format_application_part(find_application(container))}"
        f"_{attempt.number or 0:02}_{number & _SEQUENCE:06}"
    )


def find_application(container: ContainerId) -> ApplicationId:
    """Return the application of a container. Senders fill either of two fields."""
    if container.attempt is not None and container.attempt.application is not None:
        return container.attempt.application
    return container.application or ApplicationId()


def is_of(container: str, application: str) -> bool:
    """Return True if a text is the name of a container of an application."""
    try:
        return format_application(find_application(parse_container_id(container))) == application
    except InvalidIdError:
        return False


def _format_application_part(application: ApplicationId | None) -> str:
    application = application or ApplicationId()
    return f"{application.cluster_timestamp or 0}_{application.number or 0:04}"
