"""Which traces are kept: decided by a hash of the id, so every process and every restart decides alike."""

from __future__ import annotations

from hashlib import blake2b

__all__ = ["is_sampled"]


def is_sampled(trace_id: str, *, rate: float) -> bool:
    """Whether a trace is kept at a rate in [0, 1].

    What is kept at one rate is kept at every higher one.

    Example:
        >>> is_sampled("any", rate=1.0), is_sampled("any", rate=0.0)
        (True, False)
    """
    digest = blake2b(trace_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    # 53 bits, so that the quotient is exact and below 1.
    return (int.from_bytes(digest, "big") >> 11) / 2**53 < rate
