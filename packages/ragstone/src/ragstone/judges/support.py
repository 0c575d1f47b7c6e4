"""Experimental judges without a language model: a local cross-encoder decides whether evidence supports claims."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeVar
from urllib.parse import parse_qsl

from pydantic import TypeAdapter, ValidationError

from ragstone._util.abstains import answer_abstains
from ragstone._util.local_model import MODELS, LocalModel, check_installed
from ragstone._util.words import split_sentences
from ragstone.errors import ConfigurationError, JudgeError, JudgeRejectedError, JudgeReplyError
from ragstone.judges._model import model_call
from ragstone.judges._protocol import JsonReply, JudgeIdentity, Prompt

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

T = TypeVar("T")

Kind = Literal["nli", "classifier"]
_VERSION: Final = 1
_LABELS: Final[dict[Kind, frozenset[str]]] = {
    "nli": frozenset({"entailment"}),
    "classifier": frozenset({"consistent", "supported", "faithful", "factual", "grounded"}),
}
"""Names of the label of supported claims."""
_OPTIONS: Final = ("supported", "device")
_QUESTIONS: Final = ("?", "\uff1f", "\u061f")
"""Last characters of questions: of Latin, Chinese and Arabic script."""


class SupportJudge:
    """Decides with a sentence-transformers cross-encoder whether evidence supports claims. Experimental.

    The model reads the evidence first and the claim second. A claim is supported if the model's label for it is the one
    that `supported` names, or, for a model with one output, if the output is at least 0.5. Evidence that is longer than
    the model reads is divided at ends of sentences, and one part that supports the claim is enough (the method of the
    score is then "nli_parts" or "classifier_parts"). Claims are the sentences of a text, without questions and refusals.

    Args:
        kind: "nli" for a model whose label is "entailment", "classifier" for a detector of hallucinations.
        model: Name on the hub, or a directory. After "?" it may have options, such as "MODEL?supported=LABEL_1&device=cpu".
    """

    def __init__(self, kind: Kind, model: str) -> None:
        name, _, query = model.partition("?")
        options = dict(parse_qsl(query, keep_blank_values=True))
        if unknown := sorted(options.keys() - set(_OPTIONS)):
            raise ConfigurationError(
                f"the judge '{kind}:{model}' has the unknown option {unknown[0]!r}. Known options: {', '.join(_OPTIONS)}"
            )
        self._spec = f"{kind}:{name}"
        check_installed(MODELS, f"The judge {self._spec!r}")
        self._kind, self._name, self._options = kind, name, options
        digest = hashlib.sha256(f"{self._spec}/{options.get('supported', '')}/{_VERSION}".encode()).hexdigest()[:16]
        self.identity = JudgeIdentity(name=f"{name} ({kind}, experimental)", hash=digest)
        """Name and version of the judge. Only the model and its label determine the hash."""
        self._local = LocalModel(self._load, name=name, feature=f"The judge {self._spec!r}")

    async def prepare(self) -> None:
        """Load the model."""
        await self._local.prepare()

    def _load(self) -> tuple[CrossEncoder, int]:
        from sentence_transformers import CrossEncoder

        model = CrossEncoder(self._name, device=self._options.get("device"))
        return model, self._find_label(model)

    def _find_label(self, model: CrossEncoder) -> int:
        """Return the number of the label of supported claims, which the model's configuration must name."""
        labels = [str(model.config.id2label[number]) for number in range(model.config.num_labels)]
        named = self._options.get("supported")
        known = _LABELS[self._kind] if named is None else {named.casefold()}
        numbers = [number for number, label in enumerate(labels) if label.casefold() in known]
        if len(numbers) != 1:
            sought = f"'supported={named}'" if named is not None else f"{self._kind!r} knows {', '.join(sorted(known))}"
            raise ConfigurationError(
                f"the model has the labels {', '.join(labels)}, and {sought}, so it is unknown which label means that "
                f"the evidence supports a claim. Name it: '{self._spec}?supported=LABEL'"
            )
        return numbers[0]

    async def _refuse(self, prompt: Prompt, **_: object) -> NoReturn:
        """Raise a JudgeError of the kind "unsupported"."""
        raise JudgeError(
            f"{self._spec!r} only decides whether evidence supports claims, and this metric asks for {prompt.construct!r}. "
            "Use a language model as judge, or metrics of support, such as vera.groundedness, citation and "
            "ragas.faithfulness",
            kind="unsupported",
        )

    ask_text = ask_number = _refuse

    async def ask_json(self, prompt: Prompt, schema: TypeAdapter[T], *, max_tokens: int = 1024) -> JsonReply[T]:  # noqa: ARG002
        """Return a verdict on each claim, or the sentences of a text as its claims."""
        value: dict[str, Any]
        method: str = self._kind
        if prompt.construct == "entailment":
            evidence, claims = _parts(prompt, "evidence"), _parts(prompt, "claims")
            with model_call():
                verdicts, is_divided = await self._local.run(lambda loaded: self._decide(*loaded, evidence, claims))
            value = {str(number): int(verdict) for number, verdict in enumerate(verdicts, start=1)}
            method += "_parts" if is_divided else ""
        elif prompt.construct == "claims":
            sentences = (sentence for text in _parts(prompt, "text") for sentence in split_sentences(text))
            value = {"items": [s for s in sentences if s[-1:] not in _QUESTIONS and not answer_abstains(s, whole=True)]}
        else:
            await self._refuse(prompt)
        try:
            return JsonReply(value=schema.validate_python(value), raw=repr(value), method=method)
        except ValidationError as error:
            raise JudgeReplyError(
                f"{self._spec!r} cannot answer {prompt.construct!r}: {error}", raw=repr(value)
            ) from None

    def _decide(
        self, model: CrossEncoder, label: int, evidence: Sequence[str], claims: Sequence[str]
    ) -> tuple[list[bool], bool]:
        """Return which claims are supported, and whether the evidence was divided for one of them."""
        import numpy as np

        tokenizer: Any = model.tokenizer
        limit = math.inf if model.max_seq_length is None else model.max_seq_length

        def lengths(texts: Sequence[str], second: Sequence[str] | None = None) -> list[int]:
            return [len(ids) for ids in tokenizer(list(texts), second, verbose=False)["input_ids"]]

        whole = "\n\n".join(evidence)
        totals = lengths([whole] * len(claims), list(claims))
        pairs = [(n, whole, claims[n]) for n, total in enumerate(totals) if total <= limit]
        if len(pairs) < len(claims):
            sentences = [sentence for text in evidence for sentence in split_sentences(text)]
            sizes = lengths(sentences)
            for n, (claim, own) in enumerate(zip(claims, lengths(claims), strict=True)):
                if totals[n] > limit:
                    pairs += [(n, window, claim) for window in _windows(sentences, sizes, limit - own)]
            if (longest := max(lengths([e for _, e, _ in pairs], [c for *_, c in pairs]))) > limit:
                raise JudgeRejectedError(
                    f"a claim with a sentence of the evidence has {longest} tokens, and {self._spec!r} reads {limit}. "
                    "Use a model with a longer input",
                    kind="prompt_truncated",
                )
        outputs = np.asarray(model.predict([pair[1:] for pair in pairs], show_progress_bar=False), dtype=np.float64)
        outputs = outputs.reshape(len(pairs), -1)
        is_single = outputs.shape[1] == 1
        if not np.isfinite(outputs).all() or (is_single and (np.abs(outputs - 0.5) > 0.5).any()):
            raise JudgeReplyError(
                f"an output of {self._spec!r} is not {'a probability' if is_single else 'finite'}",
                raw=repr(outputs.tolist()),
            )
        verdicts = [False] * len(claims)
        supported = outputs[:, 0] >= 0.5 if is_single else outputs.argmax(1) == label
        for (n, *_), is_supported in zip(pairs, supported, strict=True):
            verdicts[n] |= bool(is_supported)
        return verdicts, len(pairs) > len(claims)

    async def aclose(self) -> None:
        """Do nothing. The model stays loaded."""


def _parts(prompt: Prompt, name: str) -> tuple[str, ...]:
    value = prompt.fields[name]
    return (value,) if isinstance(value, str) else value


def _windows(sentences: Sequence[str], sizes: Sequence[int], room: float) -> Iterator[str]:
    """Join sentences to texts of at most `room` tokens. A longer sentence is a text of its own."""
    window: list[str] = []
    used = 0
    for sentence, size in zip(sentences, sizes, strict=True):
        if window and used + size > room:
            yield " ".join(window)
            window, used = [], 0
        window.append(sentence)
        used += size
    if window:
        yield " ".join(window)
