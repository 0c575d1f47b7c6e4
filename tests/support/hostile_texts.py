"""Texts that run a script or load something, if a page puts them into its HTML as they are."""

from __future__ import annotations

__all__ = ["HOSTILE", "NOTE_HITS"]

NOTE_HITS = "Object.defineProperty(window, 'hit', { set() { console.log('ran'); } })"
"""Script that a browser runs first in each page. It writes to the console if a text runs, also in a page that is left at once."""

HOSTILE = [
    "<script>window.hit=1</script>",
    "<img src=x onerror=window.hit=1>",
    '"><svg onload=window.hit=1>',
    "'><body onload=window.hit=1>",
    "</script><script>window.hit=1</script>",
    "</style><script>window.hit=1</script>",
    "</title><script>window.hit=1</script>",
    "<iframe srcdoc='<script>parent.hit=1</script>'>",
    "<a href='javascript:window.hit=1'>x</a>",
    "<base href='http://127.0.0.1:9/'>",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>",
    "<link rel=stylesheet href=http://127.0.0.1:9/x.css>",
    "<style>@import 'http://127.0.0.1:9/x'</style>",
    "<object data=http://127.0.0.1:9/>",
    "<form action=http://127.0.0.1:9/><input autofocus onfocus=window.hit=1>",
    "<details open ontoggle=window.hit=1>",
    "<math><mtext></mtext><script>window.hit=1</script></math>",
    "{{constructor.constructor('window.hit=1')()}}",
    "<!--><script>window.hit=1</script>-->",
    "\u202e<script>window.hit=1</script>",
]
