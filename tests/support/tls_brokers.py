"""Certificates that a test makes, and what a message broker with TLS must refuse."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

import pytest

from broker_contract import captured, line
from command_line import run_in_new_process
from ragstone.brokers._factory import open_broker
from ragstone.errors import BrokerError
from ragstone.monitor import Monitor
from ragstone.requests import TraceDraft
from ragstone.store import open_store

__all__ = ["check_tls", "make_certificate"]


def make_certificate(folder: Path) -> dict[str, str]:
    """Make a certificate of 127.0.0.1 that is its own authority. Returns its files, by the options of a broker's URL."""
    folder.mkdir(parents=True, exist_ok=True)
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(certificate), "-keyout", str(key)]
    subprocess.run(command, check=True, capture_output=True)
    return {"ssl_ca_certs": str(certificate), "ssl_certfile": str(certificate), "ssl_keyfile": str(key)}


def check_tls(url: str, certificate: Mapping[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An application and a worker with the right files work. Without them, nothing is sent and the reason is an error.

    Args:
        url: The URL of a queue, without options. The server accepts only clients with this certificate.
        certificate: The files of `make_certificate`.
        folder: Where files go.
        monkeypatch: Sets the directory of the spool.
    """
    whole = f"{url}?{urlencode(certificate)}"
    other = make_certificate(folder / "other")
    for options in (
        {},  # the server's certificate is not known
        {**other},  # neither is known to the other side
        {"ssl_ca_certs": certificate["ssl_ca_certs"]},  # the client has none
    ):
        with pytest.raises(BrokerError, match=r"(?i)certificate|ssl|tls|closed|reset|peer"):
            open_broker(f"{url}?{urlencode(options)}").publish("a.seg", 0, 1, [line(captured("t"))])
    monkeypatch.setenv("RAGSTONE_SPOOL", str(folder / "spool"))
    with Monitor(store=whole, judge="lexical") as monitor:
        for i in range(5):
            assert monitor.record(TraceDraft(trace_id=f"t{i}", query="Which stone?", response="The grey stone."))
        assert monitor.drain(60)
    done = run_in_new_process("worker", folder / "s.db", "--judge", "lexical", "--metrics", "ccrs.qr", "--until-idle", "--from", whole)  # fmt: skip
    assert done.returncode == 0, done.stderr
    with open_store(folder / "s.db", mode="read") as store:
        assert (store.ledger().total.captured, store.ledger().total.scored) == (5, 5)
