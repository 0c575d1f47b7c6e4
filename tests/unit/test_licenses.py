"""Licenses of what users install with Ragstone: none that would bind their own code."""

from __future__ import annotations

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution

import pytest
from packaging.requirements import Requirement

EXTRAS = ("otlp", "grpc", "pandas", "parquet", "replay", "postgres", "prometheus", "fit", "text")
"""Extras of `ragstone` that the tests install. `models` and `vllm` bring torch, which is too large for this session."""

PERMISSIVE = re.compile(
    r"\b(0BSD|Apache([ -]2\.0|[ -]Software[ -]Licen[cs]e|[ -]Licen[cs]e)?|BSD|[23]-Clause BSD|CC0-1\.0|CNRI-Python|ISC|MIT|PSF|PSFL"
    r"|Python Software Foundation|Unlicense|Zlib|HPND|NCSA|Enthought)\b",
    re.IGNORECASE,
)
WEAK_COPYLEFT = {
    "certifi": "MPL-2.0",
    "orjson": "MPL-2.0",
    "psycopg": "LGPL-3.0-only",
    "psycopg-binary": "LGPL-3.0-only",
    "tqdm": "MPL-2.0",
}
"""Used unchanged and as packages of their own, which these licenses allow in any application."""


def name_of(project: str) -> str:
    """The normalized name."""
    return re.sub(r"[-_.]+", "-", project).lower()


def license_of(found: Distribution) -> str:
    """What its metadata say, in any of three places."""
    metadata = found.metadata
    classifiers = [
        c.rpartition("::")[2].strip() for c in metadata.get_all("Classifier") or () if c.startswith("License")
    ]
    text = (metadata.get("License") or "").strip()
    # Some write the whole license instead of its name.
    name = "BSD" if "Redistribution and use in source and binary forms" in text else text.partition("\n")[0]
    stated = metadata.get("License-Expression") or name
    return " / ".join(filter(None, [stated, *classifiers]))


def installed() -> dict[str, Distribution]:
    """What our packages and extras require, directly or not, as far as it is installed here."""
    found: dict[str, Distribution] = {}
    waiting = [("ragstone", EXTRAS), ("langchain-ragstone", ()), ("llama-index-observability-ragstone", ())]
    while waiting:
        name, extras = waiting.pop()
        try:
            one = found.setdefault(name_of(name), distribution(name))
        except PackageNotFoundError:
            continue
        for text in one.requires or ():
            needed = Requirement(text)
            applies = needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in ("", *extras))
            if applies and name_of(needed.name) not in found:
                waiting.append((needed.name, tuple(needed.extras)))
    return found


PACKAGES = installed()


def test_the_packages_are_found():
    """Those that everybody gets, and some of extras and integrations."""
    assert {"ragstone", "numpy", "openai", "aiohttp", "psycopg", "langchain-core"} <= PACKAGES.keys()


@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_a_license_is_permissive_or_listed(name):
    """A new dependency with another license fails here, and somebody decides."""
    terms = license_of(PACKAGES[name])
    if name in WEAK_COPYLEFT:
        assert WEAK_COPYLEFT[name].partition("-")[0] in terms, terms
        return
    assert PERMISSIVE.search(terms), f"{name}: {terms or 'no license stated'}"
    others = re.sub(r"AND|OR|WITH|[()/]", " ", PERMISSIVE.sub(" ", terms))
    assert not re.search(r"GPL|Affero|copyleft|MPL|Mozilla|EPL|EUPL|SSPL|BUSL|Commons Clause|Proprietary", others), (
        terms
    )
