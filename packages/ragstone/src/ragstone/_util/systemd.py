"""Notifications to systemd: that a service is ready, and that it still works."""

from __future__ import annotations

import contextlib
import os
import socket


def notify(state: str) -> None:
    """Send a state, such as "READY=1", to the service manager that started this process. Without one, do nothing."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")) or not hasattr(socket, "AF_UNIX"):
        return
    # An abstract socket has a zero byte in front of its name.
    address = f"\0{address[1:]}" if address[0] == "@" else address
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.connect(address)
        client.sendall(state.encode())


def watchdog_interval_s() -> float | None:
    """Return how often "WATCHDOG=1" must be sent in seconds (half of the manager's limit), or None without a watchdog."""
    text = os.environ.get("WATCHDOG_USEC", "")
    pid = os.environ.get("WATCHDOG_PID", "")
    return None if not text.isdigit() or int(text) == 0 or (pid and pid != str(os.getpid())) else int(text) / 2e6
