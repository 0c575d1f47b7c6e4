"""Monitor: connects capture and a worker in an application."""

from ragstone.monitor._config import read_config as read_config
from ragstone.monitor._monitor import Monitor

__all__ = ["Monitor"]
