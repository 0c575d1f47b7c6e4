"""The judges `nli:MODEL` and `classifier:MODEL` with real tiny models: labels, verdicts, long evidence, other metrics."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

import ragstone
from ragstone.errors import ConfigurationError, JudgeError
from ragstone.judges import Prompt, judge_from
from ragstone.metrics._ask import ask_ratings
from ragstone.schema import Failure, Score

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("default")]

EVIDENCE = ("the tower is tall.", "ferries leave at noon.")
CLAIMS = tuple(
    f"the {word} is {place}" for word in ("tower", "ferry", "cook") for place in ("high", "31 meters", "noon", "x")
)
NLI = ("contradiction", "entailment", "neutral")


@pytest.fixture(scope="session")
def make(tmp_path_factory, tokeniser, configuration):
    """Save a classifier with random weights and these labels, which reads some number of tokens."""

    def save(*labels: str, reads: int = 1024, seed: int = 5) -> str:
        import torch
        from transformers import BertForSequenceClassification

        folder = tmp_path_factory.mktemp("models") / "tiny-classifier"
        config = type(configuration)(**{**configuration.to_dict(), "max_position_embeddings": reads})
        config.num_labels = len(labels)
        config.id2label = dict(enumerate(labels))
        config.label2id = {label: number for number, label in enumerate(labels)}
        torch.manual_seed(seed)
        BertForSequenceClassification(config).save_pretrained(folder)
        tokeniser.save_pretrained(folder)
        if reads < 1024:
            file = Path(folder) / "tokenizer_config.json"
            file.write_text(json.dumps({**json.loads(file.read_text()), "model_max_length": reads}))
        return str(folder)

    return save


def logits(folder: str, evidence: str, claims: tuple[str, ...]) -> np.ndarray:
    """Return what the model itself says about each claim."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokeniser = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        return np.vstack([model(**tokeniser(evidence, claim, return_tensors="pt")).logits.numpy() for claim in claims])


def ask(spec: str, evidence: tuple[str, ...] = EVIDENCE, claims: tuple[str, ...] = CLAIMS):
    prompt = Prompt(construct="entailment", task="", fields={"evidence": evidence, "claims": claims})
    return asyncio.run(ask_ratings(judge_from(spec), prompt, len(claims)))


@pytest.mark.parametrize(("order", "seed"), [(NLI, 2), (NLI[1:] + NLI[:1], 2), (("ENTAILMENT", "not_entailment"), 3)])
def test_the_verdict_is_the_label_that_the_configuration_names(make, order, seed):
    """Wherever the label stands, and in any case: the same weights have other verdicts with another order."""
    folder = make(*order, seed=seed)
    expected = logits(folder, "\n\n".join(EVIDENCE), CLAIMS).argmax(axis=1) == [o.lower() for o in order].index(
        "entailment"
    )
    reply = ask(f"nli:{folder}")
    assert tuple(map(int, expected)) == reply.marks
    assert "nli" == reply.method
    assert {0, 1} == set(reply.marks), "the weights do not distinguish these claims"


def test_a_detector_with_one_output(make):
    """At least one half is support, if the label is named."""
    folder = make("LABEL_0", seed=3)
    expected = logits(folder, "\n\n".join(EVIDENCE), CLAIMS)[:, 0] >= 0
    assert {False, True} == set(expected.tolist()), "the weights do not distinguish these claims"
    assert tuple(map(int, expected)) == ask(f"classifier:{folder}?supported=LABEL_0").marks


@pytest.mark.parametrize(
    ("kind", "labels", "words"),
    [
        ("nli", ("LABEL_0", "LABEL_1", "LABEL_2"), "labels LABEL_0, LABEL_1, LABEL_2, and 'nli' knows entailment"),
        ("classifier", ("LABEL_0",), r"labels LABEL_0, .*Name it: 'classifier:.*\?supported=LABEL'"),
        ("classifier", NLI, "'classifier' knows consistent, factual"),
        ("nli", ("entailment", "Entailment"), "labels entailment, Entailment"),
        ("nli?supported=yes", NLI, "'supported=yes'"),
    ],
)
def test_unknown_labels_are_refused(make, kind, labels, words):
    """Nothing is assumed about the order of labels."""
    kind, _, query = kind.partition("?")
    judge = judge_from(f"{kind}:{make(*labels)}{'?' if query else ''}{query}")
    with pytest.raises(ConfigurationError, match=words):
        asyncio.run(judge.prepare())


def test_a_named_label(make):
    """It decides, and it is part of the identity, as other verdicts follow from it."""
    folder = make(*NLI)
    plain, named = (judge_from(f"nli:{folder}{query}") for query in ("", "?supported=neutral&device=cpu"))
    assert plain.identity.hash != named.identity.hash
    assert named.identity.name.endswith("(nli, experimental)")
    expected = logits(folder, "\n\n".join(EVIDENCE), CLAIMS).argmax(axis=1) == 2
    assert tuple(map(int, expected)) == ask(f"nli:{folder}?supported=neutral").marks


def test_long_evidence_is_read_in_parts(make):
    """No part is cut: a claim is supported if one part supports it, and the method says so."""
    folder = make(*NLI, reads=40, seed=2)
    evidence = tuple(f"The {' '.join([word] * 18)}." for word in ("tower", "noon", "ferries"))
    by_part = [logits(folder, text, CLAIMS).argmax(axis=1) == 1 for text in evidence]
    expected = tuple(int(any(marks)) for marks in zip(*by_part, strict=True))
    assert {0, 1} == set(expected), "the weights do not distinguish these claims"
    assert expected not in [tuple(map(int, marks)) for marks in by_part], "one part is enough"
    reply = ask(f"nli:{folder}", evidence)
    assert ("nli_parts", expected) == (reply.method, reply.marks)


def test_evidence_that_cannot_be_divided_is_an_error(make):
    """A sentence that the model cannot read completely gives no verdict."""
    with pytest.raises(
        JudgeError, match=r"has \d+ tokens, and 'nli:.*' reads 24\. Use a model with a longer input"
    ) as caught:
        ask(f"nli:{make(*NLI, reads=24)}", ("tall " * 30,), ("the tower is tall",))
    assert "prompt_truncated" == caught.value.kind


def test_an_output_that_is_not_a_number_is_an_error(make):
    """A broken model has no verdicts."""
    import torch

    judge = judge_from(f"nli:{make(*NLI)}")
    asyncio.run(judge.prepare())

    def break_model(loaded):
        with torch.no_grad():
            loaded[0].model.classifier.weight.fill_(float("nan"))

    asyncio.run(judge._local.run(break_model))
    prompt = Prompt(construct="entailment", task="", fields={"evidence": EVIDENCE, "claims": CLAIMS[:1]})
    with pytest.raises(JudgeError, match="is not finite"):
        asyncio.run(ask_ratings(judge, prompt, 1))


def test_metrics(make):
    """Metrics of support and claims have scores, others fail with the way out, and tables say that it is experimental."""
    row = {
        "id": "a",
        "query": "how tall is it?",
        "contexts": list(EVIDENCE),
        "response": "The tower is high. Do you like it? I don't know.",
        "reference": "The tower is tall.",
    }
    metrics = ["ragas.faithfulness", "vera.groundedness", "citation.recall", "ragas.context_recall", "ccrs.cc"]
    result = ragstone.evaluate([row], metrics, judge=f"nli:{make(*NLI)}")
    outcomes = {outcome.metric: outcome for outcome in result.outcomes}
    for name in metrics[:-1]:
        assert isinstance(outcomes[name], Score)
        assert outcomes[name].judge.endswith("(nli, experimental)")
    assert ["The tower is high."] == [claim["claim"] for claim in outcomes["ragas.faithfulness"].details["claims"]]
    other = outcomes["ccrs.cc"]
    assert isinstance(other, Failure)
    assert "unsupported" == other.kind
    assert "only decides whether evidence supports claims" in other.reason
    assert "experimental judge" in str(result)
