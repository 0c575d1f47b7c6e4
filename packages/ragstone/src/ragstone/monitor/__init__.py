"""Monitor: connects capture and a worker in an application."""

from ragstone.monitor._monitor import Monitor

__all__ = ["Monitor"]
