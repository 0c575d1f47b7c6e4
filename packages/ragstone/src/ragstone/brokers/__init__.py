"""Message brokers between applications and workers on several hosts: Redis Streams and NATS JetStream."""

from ragstone.brokers._address import describe_broker as describe_broker
from ragstone.brokers._address import is_broker_url as is_broker_url
from ragstone.brokers._factory import make_relay as make_relay
from ragstone.brokers._factory import make_trace_source as make_trace_source
from ragstone.brokers._factory import read_broker_status as read_broker_status
from ragstone.brokers._relay import BrokerRelay as BrokerRelay

__all__ = []
