"""How many containers of each role are still to come, and what is told of those that do not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from tony.core.events import Event, Queued, Unsatisfiable
from tony.hadoop.yarn.am_rm_client import MasterClient, Registration
from tony.hadoop.yarn.request_table import ContainerRequest

#: Seconds until missing containers are told of: before, they are probably just on their way.
_QUEUED_AFTER = 2.0
#: What a ResourceManager says that takes no placement constraints.
_NO_HANDLER = "cannot handle placement constraints"


class Demand:
    """What a job wants of its containers.

    Args:
        asks: what one of each role is to be like. A role's place among them is the key that it is asked for by.
        placed: the setting for which a role is asked for with constraints, if it is.
        queue: where the job runs, if the ResourceManager has not said so.
        there: how many of a role there are.
        left_out: hosts on which nothing is wanted.
        tell: takes what is told.
    """

    def __init__(
        self,
        asks: Mapping[str, ContainerRequest],
        master: MasterClient,
        registration: Registration,
        *,
        placed: Mapping[str, str],
        queue: str,
        there: Callable[[str], int],
        left_out: Callable[[], Sequence[str]],
        tell: Callable[[Event], None],
    ) -> None:
        self._asks, self._roles, self._placed = asks, tuple(asks), placed
        self._master, self._registration = master, registration
        self._queue = registration.queue or queue
        self._there, self._left_out, self._tell = there, left_out, tell
        self._total = dict.fromkeys(asks, 0)
        self._queued = ""
        #: Role -> why the ResourceManager finds no place for those that are missing.
        self._no_place: dict[str, str] = {}
        self._shortage: asyncio.TimerHandle | None = None

    def set(self, role: str, total: int) -> None:
        """So many of a role in all, those included that are there."""
        if total == self._total[role]:
            return
        self._total[role] = total
        if total and (missing := self._unknown_resources(role)):
            self._tell(Unsatisfiable(role=role, reason=f"the cluster counts no {missing}"))
            return
        self.ask(role)

    def _unknown_resources(self, role: str) -> str:
        """Resources that YARN would ignore without a word."""
        known = {each.name for each in self._registration.resource_types}
        wanted = self._asks[role].resource
        return ", ".join(each.name for each in wanted.others if known and each.name not in known)

    def ask(self, role: str) -> None:
        """Says how many are still to come. A container counts until its end was told."""
        missing = max(0, self._total[role] - self._there(role))
        self._master.want(self._roles.index(role), missing, self._asks[role])
        self.look()

    def role(self, key: int) -> str | None:
        """Whose key it is; None if nobody's."""
        return self._roles[key] if 0 <= key < len(self._roles) else None

    def granted(self, role: str) -> None:
        """One of a role has come."""
        if not self._master.outstanding(self._roles.index(role)):
            self._no_place.pop(role, None)

    def refused(self, key: int, reason: str) -> None:
        """None of a role will ever come."""
        role = self._roles[key]
        if _NO_HANDLER in reason and role in self._placed:
            reason = (
                f"this cluster takes no placement constraints, and {self._placed[role]} needs them. Leave it out, or "
                "ask who runs the cluster to set yarn.resourcemanager.placement-constraints.handler to `scheduler` or "
                "`placement-processor`"
            )
        self._tell(Unsatisfiable(role=role, reason=reason))

    def rejected(self, key: int, reason: str) -> None:
        """For those that are missing there is no place now."""
        self._no_place[self._roles[key]] = reason

    def close(self) -> None:
        """Wants nothing any more, and tells nothing."""
        if self._shortage:
            self._shortage.cancel()
        for key, role in enumerate(self._roles):
            self._master.want(key, 0, self._asks[role])

    # --- what is short ----------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Tells after a moment what is missing, and at once when nothing is any more."""
        if self._master.outstanding() == 0:
            if self._shortage:
                self._shortage.cancel()
                self._shortage = None
            self._say_queued("")
        elif self._shortage is None:
            self._shortage = asyncio.get_running_loop().call_later(_QUEUED_AFTER, self._tell_shortage)

    def _tell_shortage(self) -> None:
        self._shortage = None
        parts = []
        for key, role in enumerate(self._roles):
            missing = self._master.outstanding(key)
            if missing:
                parts.append(f"{missing} of {self._total[role]} containers of {role}")
        if parts:
            why = "".join(
                f"; for {role} there is no place now ({reason}), it is asked for again and again"
                for role, reason in self._no_place.items()
            )
            if hosts := self._left_out():
                why += f"; without {', '.join(hosts)}, where no Python was found for our programs"
            said = f"waiting for YARN: {', '.join(parts)} are not granted yet by queue {self._queue}{why}"
            self._say_queued(said)

    def _say_queued(self, reason: str) -> None:
        if reason != self._queued:
            self._queued = reason
            self._tell(Queued(reason=reason))
