"""The commands of `ragstone lab`."""
