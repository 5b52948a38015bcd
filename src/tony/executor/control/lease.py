"""The executor's lease: how long it continues without its application master. No clock."""

from __future__ import annotations

#: Number of renewals per term.
_RENEWALS = 10


class Lease:
    """The right to continue, renewed by each proof that the application master receives the executor's messages.

    An executor cannot tell a dead application master from a network that is cut. If something says that no AM is there,
    it continues for `length` seconds after the last proof; otherwise for `timeout`, if that is longer.

    A lease runs from when the executor *sent* the message that the application master answered, never from when the
    answer arrived. So it expires no later than the application master assumes, which counts from when it received the
    message. The full argument is in docs/am-failures.md.

    Attributes:
        term: seconds after which it expires in any case, unless it is renewed.
    """

    def __init__(self, length: float, timeout: float, now: float) -> None:
        self._length = length
        self.term = max(length, timeout)
        self._proof = now

    def renew(self, sent: float) -> None:
        """Note that the application master has answered a message sent at that time."""
        self._proof = max(self._proof, sent)

    def compute_time_left(self, now: float, *, no_listener: bool) -> float:
        """Return the seconds that are left; 0 once expired.

        Args:
            no_listener: whether something says that no application master is there.
        """
        return max(0.0, self._proof + (self._length if no_listener else self.term) - now)

    def needs_renewal(self, now: float) -> bool:
        """Return True if an answer of the application master is needed now, which is rare."""
        return now - self._proof >= self.pulse

    @property
    def ends(self) -> float:
        """Time at which it expires unless it is renewed."""
        return self._proof + self.term

    @property
    def pulse(self) -> float:
        """Seconds between two requested answers: the part of the term that is used up while all is well."""
        return self.term / _RENEWALS
