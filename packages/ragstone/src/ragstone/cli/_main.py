"""The entry point: converts errors to messages and exit codes."""

from __future__ import annotations

import sys
import traceback

from ragstone.cli._exit_codes import ExitCode
from ragstone.errors import ConfigurationError, DataError, JudgeError, RagstoneError, StoreNotFoundError

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Run `ragstone`, and exit with an `ExitCode`."""
    from ragstone.cli._app import app

    try:
        app(arguments)
    except (ConfigurationError, DataError, StoreNotFoundError) as error:
        _print_error(error)
        sys.exit(ExitCode.USAGE)
    except RagstoneError as error:
        _print_error(error)
        sys.exit(
            ExitCode.BUDGET if isinstance(error, JudgeError) and error.kind == "budget" else ExitCode.INFRASTRUCTURE
        )
    except Exception:  # noqa: BLE001 - Python's default exit code, 1, means that a gate failed
        traceback.print_exc()
        sys.exit(ExitCode.INFRASTRUCTURE)


def _print_error(error: RagstoneError) -> None:
    from ragstone.cli._output import print_text

    print_text(f"ragstone: {error}", err=True)
