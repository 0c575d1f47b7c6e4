"""Replies kept on disk."""
