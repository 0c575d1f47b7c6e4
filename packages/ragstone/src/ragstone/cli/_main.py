"""The entry point: converts errors to messages and exit codes."""

from __future__ import annotations

import sys
import traceback

from ragstone.errors import ConfigurationError, DataError, JudgeError, RagstoneError

__all__ = ["main"]

EXIT_USAGE = 2
EXIT_INFRASTRUCTURE = 3
EXIT_BUDGET = 4


def main(arguments: list[str] | None = None) -> None:
    """Run `ragstone`.

    Exits with 0 (ok), 1 (a gate failed), 2 (usage), 3 (infrastructure), 4 (budget reached) or 130 (interrupted).
    """
    from ragstone.cli._app import app
    from ragstone.cli._output import print_text

    try:
        app(arguments)
    except (ConfigurationError, DataError) as error:
        print_text(f"ragstone: {error}", err=True)
        sys.exit(EXIT_USAGE)
    except RagstoneError as error:
        print_text(f"ragstone: {error}", err=True)
        sys.exit(EXIT_BUDGET if isinstance(error, JudgeError) and error.kind == "budget" else EXIT_INFRASTRUCTURE)
    except Exception:  # noqa: BLE001 - Python's default exit code, 1, means that a gate failed
        traceback.print_exc()
        sys.exit(EXIT_INFRASTRUCTURE)
