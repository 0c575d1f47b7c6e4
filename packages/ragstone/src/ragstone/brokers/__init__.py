"""Message brokers between applications and workers on several hosts: Redis Streams."""

from typing import TYPE_CHECKING

from ragstone._util.lazy import lazy_names

if TYPE_CHECKING:
    from ragstone.brokers._address import describe_broker, is_broker_url
    from ragstone.brokers._factory import make_relay, make_trace_source, read_broker_status
    from ragstone.brokers._relay import BrokerRelay

__all__ = []

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_address": "describe_broker is_broker_url",
            "_factory": "make_relay make_trace_source read_broker_status",
            "_relay": "BrokerRelay",
        },
    )
