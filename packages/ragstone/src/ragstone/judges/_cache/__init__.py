"""Reply cache on disk."""
