"""The live page: the report of a store that is being written, served to browsers."""

from ragstone.live._server import serve

__all__: list[str] = []
