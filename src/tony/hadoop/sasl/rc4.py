"""RC4, because Hadoop's tokens ask for it when a cluster wants privacy. No use for anything else: it is broken."""

from __future__ import annotations


class Rc4:
    """One direction of a conversation: the stream goes on from message to message. Some 7 MB/s."""

    def __init__(self, key: bytes) -> None:
        state = list(range(256))
        j = 0
        size = len(key)
        for i in range(256):
            j = (j + state[i] + key[i % size]) & 255
            state[i], state[j] = state[j], state[i]
        self._state = state
        self._i = 0
        self._j = 0

    def crypt(self, data: bytes) -> bytes:
        """Encrypt or decrypt: both are the same."""
        size = len(data)
        stream = self._stream(size)
        return (int.from_bytes(data, "little") ^ int.from_bytes(stream, "little")).to_bytes(size, "little")

    def _stream(self, size: int) -> bytearray:
        state, i, j = self._state, self._i, self._j
        stream = bytearray(size)
        for position in range(size):
            i = (i + 1) & 255
            x = state[i]
            j = (j + x) & 255
            y = state[j]
            state[i] = y
            state[j] = x
            stream[position] = state[(x + y) & 255]
        self._i, self._j = i, j
        return stream
