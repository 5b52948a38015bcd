"""Whose keys a keytab has. MIT's file format 0x0502: records of a 32-bit length, each with a principal and a key."""

from __future__ import annotations

import struct


def read_principal(keytab: bytes) -> str:
    """Return the principal of the first key, with its realm: the one that a login with the file uses.

    Raises:
        ValueError: it is no keytab, or has no key.
    """
    if keytab[:2] != b"\x05\x02":
        raise ValueError("it is not a keytab of version 0x502")
    at = 2
    try:
        while (size := struct.unpack_from(">i", keytab, at)[0]) <= 0:  # a deleted key
            at += 4 - size
            if size == 0:
                break
        count = struct.unpack_from(">H", keytab, at + 4)[0]
        realm, at = _read_text(keytab, at + 6)
        names = []
        for _ in range(count):
            name, at = _read_text(keytab, at)
            names.append(name)
    except (struct.error, UnicodeDecodeError):
        raise ValueError("it has no key") from None
    if not names or not realm:
        raise ValueError("it has no key")
    return f"{'/'.join(names)}@{realm}"


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    end = at + 2 + int(struct.unpack_from(">H", data, at)[0])
    if end > len(data):
        raise struct.error
    return data[at + 2 : end].decode(), end
