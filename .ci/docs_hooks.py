"""What the documentation takes from elsewhere: the version of the package, and the address of the repository.

RAGSTONE_REPOSITORY is the address of the public repository. Without it, pages have no link to their source.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def on_config(config: Any) -> Any:
    """Add the version to the footer, and the links to the repository and to the source of a page."""
    project = tomllib.loads((ROOT / "packages/ragstone/pyproject.toml").read_text(encoding="utf-8"))["project"]
    config["copyright"] = f"Ragstone {project['version']}"
    if repository := os.environ.get("RAGSTONE_REPOSITORY", "").rstrip("/"):
        # Not `repo_url`: the theme would ask the forge for the number of stars whenever a page is read.
        config["extra"]["social"] = [
            {"icon": "fontawesome/brands/git-alt", "link": repository, "name": "Source code"},
        ]
        config["edit_uri_template"] = f"{repository}/edit/main/docs/{{path}}"
    return config


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """List decisions below the pages for users in the results of a search."""
    if page.file.src_uri.startswith("decisions/"):
        page.meta["search"] = {"boost": 0.001}
    return markdown


def name_search(html: str) -> str:
    """Give the dialog of the search a name, which the theme forgets: screen readers read it."""
    return html.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )


def name_contents(html: str) -> str:
    """Name the parts of the table of contents by their page: a heading can have the title of a part of the site."""
    return html.replace('<nav class="md-nav" aria-label="', '<nav class="md-nav" aria-label="On this page: ')


def keep_options_whole(html: str) -> str:
    """Mark an option in a text, so that the style sheet can keep its dashes and its name on one line."""
    return re.sub(r"<code>(--[a-z-]+)", r'<code><span class="option">\1</span>', html)


def on_post_page(output: str, **_: Any) -> str:
    """Correct a page."""
    return keep_options_whole(name_contents(name_search(output)))


def on_post_template(output_content: str, **_: Any) -> str:
    """Correct the page for addresses that do not exist, which is not made of Markdown."""
    return name_search(output_content)
