"""Creation of a broker from its URL, and of what uses it."""

from __future__ import annotations

from ragstone._util.lazy import needs_extra
from ragstone.brokers._address import BrokerAddress, parse_broker_url
from ragstone.brokers._protocol import Broker
from ragstone.brokers._relay import BrokerRelay
from ragstone.brokers._source import BrokerTraceSource
from ragstone.schema import BrokerStatus
from ragstone.worker import broker_spool_directory


def open_broker(url: str) -> Broker:
    """Return the broker of a URL. It connects when it is used.

    Raise ConfigurationError if the URL is invalid. Raise MissingExtraError if the extra of the broker is not installed.
    """
    return _broker(parse_broker_url(url))


def make_relay(url: str) -> BrokerRelay:
    """Return the relay that publishes this host's spool of a broker.

    Raise ConfigurationError if the URL is invalid. Raise MissingExtraError if the extra of the broker is not installed.
    """
    address = parse_broker_url(url)
    _broker(address)  # a missing package is an error here, and not later on the relay's thread
    return BrokerRelay(broker_spool_directory(address.host, address.port, address.app), lambda: _broker(address))


def make_trace_source(url: str) -> BrokerTraceSource:
    """Return the trace source that reads a broker.

    Raise ConfigurationError if the URL is invalid. Raise MissingExtraError if the extra of the broker is not installed.
    """
    return BrokerTraceSource(open_broker(url))


def read_broker_status(url: str) -> tuple[str, BrokerStatus]:
    """Return the URL of a broker without credentials, and its state.

    Raise BrokerError if the broker does not answer. Raise ConfigurationError if the URL is invalid, or the extra of the
    broker is not installed.
    """
    broker = open_broker(url)
    try:
        return broker.name, broker.status()
    finally:
        broker.close()


def _broker(address: BrokerAddress) -> Broker:
    with needs_extra("redis", "redis", "a Redis stream"):
        from ragstone.brokers._redis import RedisBroker
    return RedisBroker(address)
