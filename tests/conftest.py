"""What holds for every test: no network but loopback, no settings from the developer's shell, laws checked alike in CI."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
from collections.abc import Iterator
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings

# Time limits on single examples fail on busy machines; CI repeats the same examples so that a red run can be repeated.
COMMON = settings(deadline=None, derandomize=bool(os.environ.get("CI")), suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ragstone", COMMON, max_examples=30)
settings.register_profile("thorough", COMMON, max_examples=100)
settings.register_profile("exhaustive", COMMON, max_examples=500)
settings.load_profile("ragstone")

_ENVIRONMENT = ("RAGSTONE_CACHE", "RAGSTONE_EMBEDDER", "RAGSTONE_JUDGE", "RAGSTONE_READER", "RAGSTONE_WEBHOOK_SECRET")
_ENVIRONMENT_PREFIXES = ("OPENAI_", "LANGSMITH_", "LANGCHAIN_", "LANGFUSE_", "MLFLOW_", "OTEL_", "PHOENIX_")
# Printed tables fit the terminal; here they have one line a row, whatever terminal the tests run in.
os.environ["COLUMNS"] = "250"
# A shell that starts the tests in the background lets them, and the commands that they start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# `nohup` does the same with the signal of a closed terminal.
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Iterator[None]:
    """Replace what UTF-8 cannot encode (tests log lone surrogates), which would end a process of pytest-xdist."""
    return _encodable((yield))


def _encodable(value: object) -> object:
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case list() | tuple():
            return type(value)(map(_encodable, value))
        case dict():
            return {_encodable(key): _encodable(item) for key, item in value.items()}
    return value


class NetworkBannedError(OSError):
    """A test tried to reach another machine."""


def _is_loopback(host: object) -> bool:
    if host in (None, "", b"", "localhost", b"localhost"):
        return True
    text = host.decode() if isinstance(host, bytes) else str(host)
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Refuse connections and look-ups beyond this machine, and fail the test even if the code under test hid the refusal."""
    attempts: list[str] = []

    def check(host: object) -> None:
        if not _is_loopback(host):
            attempts.append(repr(host))
            raise NetworkBannedError(f"tests reach nothing but loopback, and this one tried {host!r}")

    def guarded(name: str):
        original = getattr(socket.socket, name)

        def connect(self, address):
            if self.family in (socket.AF_INET, socket.AF_INET6):
                check(address[0])
            return original(self, address)

        return connect

    resolve = socket.getaddrinfo

    def getaddrinfo(host, *args, **kwargs):
        check(host)
        return resolve(host, *args, **kwargs)

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, guarded(name))
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield
    assert attempts == [], "this test tried to reach other machines"


@pytest.fixture(autouse=True)
def clean_environment() -> Iterator[None]:
    """Remove settings of the developer's shell, and restore the environment, which a command run here may change."""
    with mock.patch.dict(os.environ):
        for name in list(os.environ):
            if name in _ENVIRONMENT or name.startswith(_ENVIRONMENT_PREFIXES) or name.lower() in _PROXIES:
                del os.environ[name]
        yield


@pytest.fixture(name="virtual_time")
def virtual_time_fixture() -> Iterator[object]:
    """Make waits of event loops take no real time: see `tests/support/virtual_time.py`."""
    from virtual_time import virtual_time

    with virtual_time() as clock:
        yield clock


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a worker in this process retry soon, and a monitor take over soon: its thread cannot have virtual time."""
    for name in (
        "monitor._finish._UNAVAILABLE_S",
        "monitor._background._RETRY_S",
        "worker._times.DELIVERY_MIN_S",
        "worker._times.OUTAGE_MIN_S",
        "worker._times.OUTAGE_PAID_MIN_S",
    ):
        monkeypatch.setattr(f"ragstone.{name}", 0.05)
