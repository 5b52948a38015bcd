"""Whose key a keytab has."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.hadoop import kerberos
from tony.hadoop.sasl.keytab import read_principal


def build_record(*names: str, realm: str = "EXAMPLE.ORG") -> bytes:
    texts = [struct.pack(">H", len(each)) + each.encode() for each in (realm, *names)]
    body = struct.pack(">H", len(names)) + b"".join(texts) + b"name type, time, version, key"
    return struct.pack(">i", len(body)) + body


def test_the_principal_of_the_first_key() -> None:
    keys = build_record("renewer", "k8s") + build_record("other")
    assert read_principal(b"\5\2" + keys) == "renewer/k8s@EXAMPLE.ORG"
    deleted = struct.pack(">i", -7) + b"deleted"
    assert read_principal(b"\5\2" + deleted + keys) == "renewer/k8s@EXAMPLE.ORG"


@pytest.mark.parametrize("data", [b"", b"\5\1", b"\5\2", b"\5\2\0\0\0\0", b"\5\2" + build_record("ann")[:12]])
def test_what_has_no_key(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"it is not a keytab|it has no key"):
        read_principal(data)


@pytest.mark.skipif(bool(kerberos.missing()), reason=kerberos.missing())
def test_a_keytab_of_mit(tmp_path: Path) -> None:
    kdc = kerberos.Kdc(tmp_path)
    kdc.start()
    try:
        assert read_principal(kdc.keytab("renewer/k8s").read_bytes()) == f"renewer/k8s@{kerberos.REALM}"
    finally:
        kdc.stop()
