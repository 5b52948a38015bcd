"""A job's secrets are its own, say what they are for, and outlive any job."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from tony.client.credential_creation import make_credentials
from tony.model.codec import from_plain, to_plain
from tony.protocol.hello import decode_token
from tony.protocol.launch import AmCredentials, JobCredentials

SOURCE = Path(__file__).parents[2] / "src"


def test_every_job_has_its_own_token() -> None:
    """32 random bytes; all sides of one job have the same."""
    one, two = make_credentials(tls=False), make_credentials(tls=False)
    assert len(decode_token(one.am.token)) == 32
    assert one.am.token == one.executors.token
    assert one.am.token != two.am.token
    assert one.am == AmCredentials(token=one.am.token)


@pytest.fixture(scope="module")
def job() -> JobCredentials:
    return make_credentials(tls=True)


def _certificate(pem: str | None) -> x509.Certificate:
    assert pem is not None
    return x509.load_pem_x509_certificate(pem.encode())


def test_the_authority_signed_both_pairs(job: JobCredentials) -> None:
    """And is the same for both, and can sign nothing that signs."""
    assert job.am.ca == job.executors.ca
    authority = _certificate(job.am.ca)
    constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (constraints.ca, constraints.path_length) == (True, 0)
    for pair in (job.am, job.executors):
        _certificate(pair.certificate).verify_directly_issued_by(authority)


@pytest.mark.parametrize(("side", "name"), [("am", "tony-am"), ("executors", "tony-executor")])
def test_a_certificate_has_its_purpose(job: JobCredentials, side: str, name: str) -> None:
    """It has a name that is no host's; it may listen and connect, but sign no other; and it has its own key."""
    pair: AmCredentials = getattr(job, side)
    certificate = _certificate(pair.certificate)
    extensions = certificate.extensions
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [name]
    uses = set(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    assert uses == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert pair.key is not None
    key = load_pem_private_key(pair.key.encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.public_key() == certificate.public_key()


def test_the_two_pairs_have_different_keys(job: JobCredentials) -> None:
    """Nor is either the authority's: its key is nowhere."""
    am, executors, authority = (
        _certificate(pem).public_key() for pem in (job.am.certificate, job.executors.certificate, job.am.ca)
    )
    assert am != executors
    assert authority not in (am, executors)


def test_no_job_outlives_its_certificates(job: JobCredentials) -> None:
    """Ten years, and a day for clocks that are behind."""
    now = datetime.now(UTC)
    for pem in (job.am.ca, job.am.certificate, job.executors.certificate):
        certificate = _certificate(pem)
        assert certificate.not_valid_before_utc <= now - timedelta(hours=23)
        assert certificate.not_valid_after_utc >= now + timedelta(days=3640)


def test_secrets_do_not_show(job: JobCredentials) -> None:
    """Neither in a traceback nor in a log; they do survive their file."""
    assert (repr(job), repr(job.am)) == ("JobCredentials()", "AmCredentials()")
    assert from_plain(JobCredentials, to_plain(job)) == job


def test_a_job_without_tls_loads_no_cryptography() -> None:
    """It takes 50 ms, of which such a job has no use."""
    code = (
        "import sys; from tony.client.credential_creation import make_credentials; make_credentials(tls=False);"
        "print('cryptography' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=SOURCE)
    assert done.stdout == "False\n"
