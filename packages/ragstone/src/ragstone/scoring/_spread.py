"""A sample of samples, evenly spread and bounded."""

from __future__ import annotations

from typing import Final

from ragstone.errors import ConfigurationError
from ragstone.schema import Sample

_MAX_CHARS: Final = 16_000_000
"""Characters of all samples together, of which a character takes up to four bytes."""


class StrideSampler:
    """An evenly spread part of a stream of unknown length: every k-th sample, with k doubled whenever the part is full.

    There are at most `most` samples, and fewer if they are long. Raise ConfigurationError if `most` is smaller.
    """

    def __init__(self, most: int) -> None:
        if most < 1:
            raise ConfigurationError(f"max_rehearsed must be at least 1, got {most!r}")
        self.samples: list[Sample] = []
        self.n_seen = 0
        self._most = most
        self._every = 1
        self._n_chars = 0

    def add(self, sample: Sample) -> None:
        """Take the next sample of the stream, or leave it out."""
        if self.n_seen % self._every == 0:
            self.samples.append(sample)
            self._n_chars += _length(sample)
            while len(self.samples) > self._most or (self._n_chars > _MAX_CHARS and len(self.samples) > 1):
                self.samples = self.samples[::2]
                self._every *= 2
                self._n_chars = sum(map(_length, self.samples))
        self.n_seen += 1


def _length(sample: Sample) -> int:
    """Return the number of characters of its main texts."""
    texts = [sample.query, sample.response, *sample.reference, *(passage.text for passage in sample.contexts or ())]
    return sum(len(text) for text in texts if text is not None)
