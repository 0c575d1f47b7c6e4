"""Serve a GGUF model with llama.cpp: `serve.py MODEL PORT`. Prints the address when requests are accepted."""

from __future__ import annotations

import sys
import threading

import xllamacpp

SLOTS = 4
CONTEXT = 4096
THREADS = 1
"""With more, each thread waits for the others, which takes longest on a machine that others use."""


def main(model: str, port: str) -> None:
    """Serve until the process is stopped."""
    options = xllamacpp.CommonParams()
    options.model.path = model
    options.model_alias = {"smollm2-135m"}
    options.port, options.n_parallel, options.n_ctx = int(port), SLOTS, SLOTS * CONTEXT
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = THREADS
    options.verbosity = 0
    server = xllamacpp.Server(options)
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
