"""Monitor: the one room that wires capture to a worker, live."""

from ragstone.monitor._config import read_config as read_config
from ragstone.monitor._monitor import Monitor

__all__ = ["Monitor"]
