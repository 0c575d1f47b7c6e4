"""Replay: traces that other tools have collected, read without their server."""
