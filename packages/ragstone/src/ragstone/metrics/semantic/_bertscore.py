"""BERTScore: similarity of each token of one text to the most similar token of the other, in context.

With tokens x of the response, y of a reference and cosines of their vectors in one layer of an encoder:

    P = mean over x of max over y of cos(x, y)        R = mean over y of max over x of cos(x, y)        F1 = 2PR / (P +
    R)

Source: T. Zhang, V. Kishore, F. Wu, K. Weinberger, Y. Artzi, "BERTScore: Evaluating Text Generation with BERT", ICLR
    2020,
section 3.

Special tokens that the tokenizer adds have weight 0 in the means, but may be the most similar token of another token,
as in the authors' library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from ragstone.errors import ConfigurationError
from ragstone.metrics._card import WorkedExample
from ragstone.metrics.semantic._base import SemanticMetric

if TYPE_CHECKING:
    from torch import Tensor

_MODEL: Final = "google-bert/bert-base-multilingual-cased"
"""The authors' default for languages other than English and Chinese. It covers 100 languages and needs 700 MB."""

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
"""The layer with the highest correlation with human ratings in the authors' experiments (appendix, table of models)."""

_NO_LIMIT: Final = 100_000
"""Above this value, a tokenizer's maximum length means that it does not define a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Encoder:
    """A model with its tokenizer."""

    model: Any
    tokenizer: Any
    layer: int
    most_tokens: int


class BertScore(SemanticMetric[_Encoder]):
    """BERTScore F1, with precision and recall in `details`.

    Args:
        model: An encoder: a name on the hub, or a directory. For English text the authors recommend "roberta-large".
            Other models than the default are part of the metric's name (`bertscore@MODEL`, `bertscore@MODEL,layer=17`).
        layer: Index of the layer whose vectors are compared, from 0 (input embeddings). None: the layer that the
            authors recommend, or the last layer of other models.
        device: Device of the model ("cpu", "cuda"). None: a GPU if available, else the CPU.

    Raises:
        ConfigurationError: If `layer` is negative. A layer above the model's last is reported when the model is loaded.
    """

    name = "bertscore"
    title = "BERTScore F1"
    _meaning = "tokens have no close counterpart in the reference"
    _next_step = "Compare systems; unrelated texts can reach 0.6 to 0.8."
    description = "How similar are the tokens of the response and the reference in meaning?"
    formula = (
        "F1 of P = mean over response tokens of the highest cosine to a reference token, and R = the same with "
        "response and reference exchanged"
    )
    example = WorkedExample(
        row={"response": "It is 31 meters tall.", "reference": ["Ferries leave at noon.", "It is 31 meters tall."]},
        value=1.0,
        steps="The second reference equals the response, so with any model each token has a match with a cosine of 1.",
    )
    source = "Zhang et al. 2020, section 3"

    def __init__(
        self, model: str = _MODEL, *, layer: Annotated[int, Field(ge=0)] | None = None, device: str | None = None
    ) -> None:
        best = _LAYERS.get(model.rpartition("/")[2])
        self.layer = best if layer is None else layer
        if layer is not None and layer == best:  # the same metric as without this argument has the same name
            self.argument_values = {key: value for key, value in self.argument_values.items() if key != "layer"}
            self.name, self.title = f"{type(self).name}{self.suffix}", self.extend_title(type(self).title)
        super().__init__(model, device=device)
        self.version = f"1({model},{'last' if self.layer is None else self.layer})"

    def _load(self) -> _Encoder:
        import torch
        from transformers import AutoModel, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(self.model)
        model = AutoModel.from_pretrained(self.model, dtype=torch.float32)
        model = (model.get_encoder() if model.config.is_encoder_decoder else model).eval()
        last = model.config.num_hidden_layers
        layer = last if self.layer is None else self.layer
        if layer > last:
            raise ConfigurationError(f"layer must be at most {last} (the last layer of this model), got {layer!r}")
        limit = tokenizer.model_max_length
        if limit > _NO_LIMIT:
            # Models such as RoBERTa reserve some positions.
            limit = getattr(model.config, "max_position_embeddings", 512) - 2
        model.to(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        return _Encoder(model=model, tokenizer=tokenizer, layer=layer, most_tokens=limit)

    def _compared(
        self, model: _Encoder, response: str, references: Sequence[str]
    ) -> tuple[float, int, Mapping[str, Any]] | None:
        (own, own_words, own_cut), *others = (_vectors(model, text) for text in (response, *references))
        scored = []
        for position, (other, words, cut) in enumerate(others):
            if not (own_words.any() and words.any()):
                continue
            cosines = own @ other.T
            precision = float(cosines.max(dim=1).values[own_words].mean())
            recall = float(cosines.max(dim=0).values[words].mean())
            scored.append((f1_of(precision, recall), -position, precision, recall, own_cut or cut))
        if not scored:
            return None
        f1, position, precision, recall, cut = max(scored)
        return f1, -position, {"layer": model.layer, "precision": precision, "recall": recall, "truncated": cut}


def f1_of(precision: float, recall: float) -> float:
    """Compute the harmonic mean of two cosines. It is 0 if their signs differ."""
    return 2 * precision * recall / (precision + recall) if precision * recall > 0 else 0.0


def _vectors(encoder: _Encoder, text: str) -> tuple[Tensor, Tensor, bool]:
    """Return one unit vector per token, a mask of the text's own tokens, and whether the text was truncated.

    Each text is encoded alone, so that padding tokens cannot be matched.
    """
    import torch

    tokenizer = encoder.tokenizer
    # These tokenizers encode a word after a space differently. The authors' library adds the space.
    blank = " " if type(tokenizer).__name__.startswith(("Roberta", "GPT2")) else ""
    ids = tokenizer(blank + text.strip(), verbose=False)["input_ids"]
    cut = len(ids) > encoder.most_tokens
    if cut:
        ids = tokenizer(blank + text.strip(), truncation=True, max_length=encoder.most_tokens)["input_ids"]
    with torch.inference_mode():
        batch = torch.tensor([ids], device=encoder.model.device)
        hidden = encoder.model(batch, output_hidden_states=True).hidden_states[encoder.layer][0].float()
    own = torch.tensor([token not in (tokenizer.cls_token_id, tokenizer.sep_token_id) for token in ids])
    return torch.nn.functional.normalize(hidden, dim=-1).cpu(), own, cut
