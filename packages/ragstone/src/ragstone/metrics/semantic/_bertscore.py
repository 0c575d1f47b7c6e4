"""BERTScore: each token of one text with the most similar token of the other, in context.

With tokens x of the response, y of a reference and cosines of their vectors in one layer of an encoder:

    P = mean over x of max over y of cos(x, y)        R = mean over y of max over x of cos(x, y)        F1 = 2PR / (P + R)

Source: T. Zhang, V. Kishore, F. Wu, K. Weinberger, Y. Artzi, "BERTScore: Evaluating Text Generation with BERT", ICLR 2020,
section 3.

What the source leaves open is decided so:

- The values are cosines, in [-1, 1]. They are not rescaled with a baseline, and not weighted by rarity. Unrelated texts have
  0.6 or 0.8 with most models: compare systems, and do not read a value as a percentage.
- The tokens that the encoder adds around a text have no weight in a mean, but may be the most similar one to others. (So it
  is in the authors' library.)
- Where P and R differ in sign the harmonic mean has no meaning, and F1 is 0; where both are negative, so is F1.
- Several references: the one with the highest F1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ragstone.errors import ConfigurationError
from ragstone.metrics._card import WorkedExample
from ragstone.metrics.semantic._base import SemanticMetric

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["BertScore", "f1_of"]

_MODEL: Final = "google-bert/bert-base-multilingual-cased"
"""What the authors use where the language is not English or Chinese; a hundred languages, 700 MB."""

_LAYERS: Final[Mapping[str, int]] = {
    "bert-base-multilingual-cased": 9,
    "bert-base-uncased": 9,
    "bert-large-uncased": 18,
    "distilbert-base-uncased": 5,
    "roberta-base": 10,
    "roberta-large": 17,
    "xlm-roberta-base": 9,
    "xlm-roberta-large": 17,
}
"""The layer that agreed best with people in the authors' experiments (appendix, table of models)."""

_NO_LIMIT: Final = 100_000
"""A tokeniser that knows no limit names an astronomical number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Encoder:
    """A model with its tokeniser."""

    model: Any
    tokeniser: Any
    layer: int
    most_tokens: int


class BertScore(SemanticMetric[_Encoder]):
    """BERTScore F1, with precision and recall in `details`.

    Args:
        model: An encoder: a name on the hub, or a folder. For English text the authors advise "roberta-large". The name of
            the metric tells others than the default apart (`bertscore@MODEL`, `bertscore@MODEL#LAYER`).
        layer: Whose vectors are compared, from 0 (the embeddings themselves); None: the one the authors found best, and
            for other models the last.
        device: Where it runs ("cpu", "cuda"); None: on a GPU where there is one.

    Raises:
        ConfigurationError: `layer` is negative. (That it is above the model's last shows when that is loaded.)
    """

    name = "bertscore"
    title = "BERTScore F1"
    advice = (
        "Low means that tokens have no close counterpart in the reference. "
        "Next: Compare systems; unrelated texts can reach 0.6 to 0.8."
    )
    description = "Has each token of the response one of like meaning in the reference, and the other way round?"
    formula = (
        "F1 of P = mean over response tokens of the highest cosine to a reference token, and R the other way round"
    )
    example = WorkedExample(
        row={"response": "It is 31 metres tall.", "reference": ["Ferries leave at noon.", "It is 31 metres tall."]},
        value=1.0,
        steps="The second reference is the response itself: by any model each token finds itself, with a cosine of 1.",
    )
    source = "Zhang et al. 2020, section 3"

    def __init__(self, model: str = _MODEL, *, layer: int | None = None, device: str | None = None) -> None:
        if layer is not None and layer < 0:
            raise ConfigurationError(f"layer must be at least 0, got {layer!r}")
        best = _LAYERS.get(model.rpartition("/")[2])
        self.layer = best if layer is None else layer
        argument = model if self.layer == best else f"{model}#{layer}"
        super().__init__(model, device=device, argument="" if argument == _MODEL else argument)
        self.version = f"1({model},{'last' if self.layer is None else self.layer})"

    @classmethod
    def from_argument(cls, argument: str) -> BertScore:
        """Make what `bertscore@ARGUMENT` means: MODEL, or MODEL#LAYER.

        Raises:
            ConfigurationError: LAYER is no whole number from 0 on.
        """
        model, given, layer = argument.rpartition("#")
        if not given:
            return cls(argument)
        if not (model and layer.isascii() and layer.isdecimal()):
            raise ConfigurationError(
                f"bertscore@{argument} has no layer: MODEL#LAYER, a whole number from 0 on (bertscore@roberta-large#17)"
            )
        return cls(model, layer=int(layer))

    def _load(self) -> _Encoder:
        import torch
        from transformers import AutoModel, AutoTokenizer

        tokeniser = AutoTokenizer.from_pretrained(self.model)
        model = AutoModel.from_pretrained(self.model, dtype=torch.float32)
        model = (model.get_encoder() if model.config.is_encoder_decoder else model).eval()
        last = model.config.num_hidden_layers
        layer = last if self.layer is None else self.layer
        if layer > last:
            raise ConfigurationError(f"layer must be at most {last}, the last of this model, got {layer!r}")
        limit = tokeniser.model_max_length
        if limit > _NO_LIMIT:
            # Some positions are kept back in models of RoBERTa's kind.
            limit = getattr(model.config, "max_position_embeddings", 512) - 2
        model.to(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        return _Encoder(model=model, tokeniser=tokeniser, layer=layer, most_tokens=limit)

    def _compared(
        self, model: _Encoder, response: str, references: Sequence[str]
    ) -> tuple[float, int, Mapping[str, Any]] | None:
        (own, own_words, own_cut), *others = (_vectors(model, text) for text in (response, *references))
        found = []
        for position, (other, words, cut) in enumerate(others):
            if not (own_words.any() and words.any()):
                continue
            cosines = own @ other.T
            precision = float(cosines.max(dim=1).values[own_words].mean())
            recall = float(cosines.max(dim=0).values[words].mean())
            found.append((f1_of(precision, recall), -position, precision, recall, own_cut or cut))
        if not found:
            return None
        f1, position, precision, recall, cut = max(found)
        details = {"layer": model.layer, "precision": precision, "recall": recall, "truncated": cut}
        return f1, -position, details


def f1_of(precision: float, recall: float) -> float:
    """Harmonic mean of two cosines of one sign; 0 where the signs differ."""
    return 2 * precision * recall / (precision + recall) if precision * recall > 0 else 0.0


def _vectors(encoder: _Encoder, text: str) -> tuple[Tensor, Tensor, bool]:
    """One vector of length 1 for each token, which of them are the text's own, and whether the text was cut.

    A text at a time: without padding there is nothing that could be matched by mistake.
    """
    import torch

    tokeniser = encoder.tokeniser
    kind = type(tokeniser).__name__
    # Tokenisers of this kind tell a word at the start from one behind a blank; the authors' library takes the latter.
    blank = " " if kind.startswith(("Roberta", "GPT2")) else ""
    ids = tokeniser(blank + text.strip(), verbose=False)["input_ids"]
    cut = len(ids) > encoder.most_tokens
    if cut:
        ids = tokeniser(blank + text.strip(), truncation=True, max_length=encoder.most_tokens)["input_ids"]
    with torch.inference_mode():
        batch = torch.tensor([ids], device=encoder.model.device)
        hidden = encoder.model(batch, output_hidden_states=True).hidden_states[encoder.layer][0].float()
    own = torch.tensor([token not in (tokeniser.cls_token_id, tokeniser.sep_token_id) for token in ids])
    return torch.nn.functional.normalize(hidden, dim=-1).cpu(), own, cut
