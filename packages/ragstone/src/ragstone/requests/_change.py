"""Changes of what an application retrieves while one request runs. Integrations enter a stage for each retrieval."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from ragstone._util.variables import assigned

_T = TypeVar("_T")

Plan = Callable[[Sequence[str], Sequence[str]], Sequence[int | str] | None]
"""From the texts of the passages, and those that earlier stages retrieved and the last one dropped: positions and texts
of the passages that the application gets. None if the change is not possible."""
_WIDER: Final = 2


@dataclass(slots=True)
class RetrievalChange:
    """One change of what one request retrieves, and what became of it."""

    plan: Plan
    """Decides which passages the application gets."""
    widens: bool = False
    """Whether retrievers are asked for twice as many passages."""
    note: Callable[[list[str]], Any] = lambda _: None
    """Called with the texts of passages that capture does not see by itself."""
    n_retrievals: int = 0
    """Retrievals of the application, without those inside them."""
    is_possible: bool = True
    """Whether every retrieval could be changed as planned."""
    before: list[str] = field(default_factory=list)
    """Texts that the application would have got."""
    given: list[str] = field(default_factory=list)
    """Texts that the application got."""


class RetrievalStage:
    """One call of a retriever or a reranker. Only the outermost one, whose result the application gets, is changed."""

    def __init__(self, change: RetrievalChange, outer: RetrievalStage | None) -> None:
        self._change = change
        self._outer = outer
        self.inner: dict[str, Any] = {}
        self._asked: int | None = None
        self.has_more = False

    def wider(self, k: int) -> int:
        """Return the number of passages to ask for instead of `k`."""
        self._asked = k
        return k * _WIDER if self._change.widens else k

    def result(self, items: Sequence[_T], text: Callable[[_T], str], make: Callable[[str], _T | None]) -> list[_T]:
        """Return what the application gets instead of `items`. `make` makes a passage from a text, or returns None."""
        change, texts = self._change, [text(item) for item in items]
        self.has_more |= self._asked is not None and len(items) > self._asked
        by_text: dict[str, Any] = self.inner | dict(zip(texts, items, strict=True))
        if self._outer is not None:
            self._outer.inner |= by_text
            self._outer.has_more |= self.has_more
            return list(items)
        is_known = not change.widens or self.has_more
        chosen = change.plan(texts, [each for each in self.inner if each not in texts]) if is_known else None
        given = [texts[each] if isinstance(each, int) else each for each in chosen or ()]
        by_text = {each: make(each) for each in given if each not in by_text} | by_text
        added = [each for each in given if each not in texts and each not in self.inner]
        if chosen is None or any(by_text[each] is None for each in added):
            self.unchanged(items)
            return list(items)
        change.n_retrievals += 1
        change.before += texts[: self._asked] if change.widens else texts
        change.given += given
        self.note(added)
        return [items[each] if isinstance(each, int) else by_text[each] for each in chosen]

    def unchanged(self, items: Any) -> Any:
        """Return a result that cannot be changed, such as one without readable texts."""
        self._change.n_retrievals += 1
        self._change.is_possible = False
        return items

    def note(self, texts: Sequence[str]) -> None:
        """Note texts of passages that capture does not see by itself."""
        if texts:
            self._change.note(list(texts))


_change: ContextVar[RetrievalChange | None] = ContextVar("ragstone_retrieval_change", default=None)
_stage: ContextVar[RetrievalStage | None] = ContextVar("ragstone_retrieval_stage", default=None)


def changed_retrieval(change: RetrievalChange) -> AbstractContextManager[object]:
    """Change what is retrieved inside the context, in tasks and threads that inherit it."""
    return assigned(_change, change)


def retrieval_stage() -> AbstractContextManager[RetrievalStage | None]:
    """Enter one call of a retriever. The stage is None if nothing is changed."""
    change = _change.get()
    return nullcontext() if change is None else assigned(_stage, RetrievalStage(change, _stage.get()))


@contextmanager
def changed_results(
    holder: Any,
    name: str,
    *,
    text: Callable[[Any], str],
    make: Callable[[str, Sequence[Any]], Any],
    widen: Callable[[RetrievalStage, Any, Any], tuple[Any, Any]] = lambda _, args, kwargs: (args, kwargs),
    notes: bool = False,
) -> Iterator[None]:
    """Enter a stage for each call of a function or method that returns a list of passages, while the context is open.

    Args:
        holder: The module or the class.
        name: The name of the function.
        text: Returns the text of a passage, or raises TypeError or ValueError.
        make: Makes a passage from a text like those of a list, or returns None.
        widen: Returns the arguments that ask for `RetrievalStage.wider` passages.
        notes: Note the texts, because capture does not see the function.
    """
    function = getattr(holder, name)

    def changed(stage: RetrievalStage, result: Any) -> Any:
        try:
            texts = [text(item) for item in result]
        except (TypeError, ValueError):
            return stage.unchanged(result)
        if notes:
            stage.note(texts)
        return stage.result(result, text, lambda each: make(each, result))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with retrieval_stage() as stage:
            if stage is None:
                return function(*args, **kwargs)
            args, kwargs = widen(stage, args, kwargs)
            return changed(stage, function(*args, **kwargs))

    @functools.wraps(function)
    async def call_async(*args: Any, **kwargs: Any) -> Any:
        with retrieval_stage() as stage:
            if stage is None:
                return await function(*args, **kwargs)
            args, kwargs = widen(stage, args, kwargs)
            return changed(stage, await function(*args, **kwargs))

    before = inspect.getattr_static(holder, name)
    setattr(holder, name, call_async if inspect.iscoroutinefunction(function) else call)
    try:
        yield
    finally:
        setattr(holder, name, before)
