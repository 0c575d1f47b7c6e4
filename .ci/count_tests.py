"""Add up the JUnit reports of several pytest runs and print one line: `N passed, N failed, N skipped`."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree as ET


def main(folder: Path) -> None:
    """Print the totals of all reports in `folder`; an error (a fixture that broke, say) counts as a failure."""
    total = failed = skipped = 0
    for report in sorted(folder.glob("*.xml")):
        for suite in ET.parse(report).iter("testsuite"):  # noqa: S314 - we wrote these files ourselves
            total += int(suite.get("tests", 0))
            failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped += int(suite.get("skipped", 0))
    print(f"{total - failed - skipped} passed, {failed} failed, {skipped} skipped")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
