"""Message brokers between applications and workers on several hosts: Redis Streams and NATS JetStream."""

from typing import TYPE_CHECKING

from ragstone._util.lazy import lazy_names

if TYPE_CHECKING:
    from ragstone.brokers._address import describe_broker as describe_broker
    from ragstone.brokers._address import is_broker_url as is_broker_url
    from ragstone.brokers._factory import make_relay as make_relay
    from ragstone.brokers._factory import make_trace_source as make_trace_source
    from ragstone.brokers._factory import read_broker_status as read_broker_status
    from ragstone.brokers._relay import BrokerRelay as BrokerRelay

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
