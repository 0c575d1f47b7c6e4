"""What the documentation takes from elsewhere (version, address of the repository), and its pages for programs.

RAGSTONE_REPOSITORY is the address of the public repository. Without it, pages have no link to their source.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
_MARKDOWN: dict[str, tuple[Any, str]] = {}
"""Pages with their Markdown, by path below `docs`."""


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
    """Keep the Markdown of a page for programs, and list decisions below the pages for users in the results of a search."""
    _MARKDOWN[page.file.src_uri] = (page, markdown)
    if page.file.src_uri.startswith("decisions/"):
        page.meta["search"] = {"boost": 0.001}
    return markdown


def on_post_build(*, config: Any, **_: Any) -> None:
    """Write the Markdown of each page next to it, and `llms.txt`, which lists the pages by section with their first sentence."""
    site = Path(config["site_dir"])
    sections: dict[str, list[str]] = {}
    for source, (page, markdown) in _MARKDOWN.items():
        target = site / source
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(
            f"# {page.title}\n\n{markdown}" if not markdown.lstrip().startswith("# ") else markdown, "utf-8"
        )
        section = page.ancestors[-1].title if page.ancestors else config["site_name"]
        text = re.sub(r"<[^>]+>", "", re.sub(r"(?s)<(style|svg|div).*?</\1>", "", markdown))
        first = next((line for line in text.splitlines() if re.match(r"[A-Z`*]", line)), "")
        plain = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", first)
        sections.setdefault(section, []).append(
            f"- [{page.title}]({source}): {re.split(r'(?<=[.?!]) ', plain)[0]}".rstrip(": ")
        )
    lists = [f"## {name}\n\n" + "\n".join(lines) for name, lines in sections.items()]
    head = f"# {config['site_name']}\n\n> {config['site_description']}"
    (site / "llms.txt").write_text("\n\n".join([head, *lists]) + "\n", "utf-8")


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
