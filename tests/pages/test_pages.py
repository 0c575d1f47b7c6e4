"""Every block of the documentation runs as it is written, page by page, or says why it cannot."""

from __future__ import annotations

import pytest

from docs_pages import ROOT, blocks_of, documentation_pages

PAGES = [page for page in documentation_pages() if any(block.kind != "text" for block in blocks_of(page))]


def name(page):
    """A page's name in test reports."""
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_page_runs(page, run_page):
    """A reader can paste all blocks of a page into an empty directory, one after the other."""
    run_page(page)
