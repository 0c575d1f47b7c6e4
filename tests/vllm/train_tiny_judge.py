"""Train a tiny judge that answers Ragstone's own prompts: `python train_tiny_judge.py FOLDER`, a minute on one core.

It is a student of the lexical baseline. It reads the very messages that Ragstone sends to a judge, rendered from samples
of the demo's handbook, and learns to reply with the number that the baseline gives. So nearly all of its replies are
numbers and they mean a little: enough for tests of everything around a judge, and no use for anything else.

A folder that already holds the model of this file and these prompts is left as it is.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import tiny_model
import torch
from tiny_model import Optimizers, is_finished, new_model, save, train_tokenizer
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from ragstone.demo import Bm25, extract_answer, load_corpus, load_questions
from ragstone.judges import Judge, JudgeIdentity, Message, NumberReply, Prompt, TextReply, judge_from
from ragstone.judges._render import number_request, render
from ragstone.metrics import resolve_metrics
from ragstone.schema import Passage, Sample

SEED = 7
SAMPLES = 1500
"""Samples to learn from. Each gives one exercise on correctness, and a quarter of its other exercises."""
SHORT_SAMPLES = 0.9
"""Share of samples with one sentence for a context: short prompts teach the comparison of two texts in less time."""
STEPS = 300
BATCH = 16
VOCABULARY = 2048
WIDTH = 96
PROMPT_WEIGHT = 8.0
"""What predicting a whole prompt counts beside one reply: reading teaches to find words again, which the replies need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """One question to the judge, with the number it should learn to answer."""

    sample_id: str
    construct: str
    messages: list[Message]
    number: float


class Listener:
    """A judge that passes every question on and remembers it with the number it brought."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.heard: list[tuple[Prompt, float]] = []

    @property
    def identity(self) -> JudgeIdentity:
        """The identity of the judge that really answers."""
        return self._judge.identity

    async def ask_text(self, prompt: Prompt, *, max_tokens: int = 512) -> TextReply:
        """Pass the question on."""
        return await self._judge.ask_text(prompt, max_tokens=max_tokens)

    async def ask_number(self, prompt: Prompt, *, low: float = 0, high: float = 100) -> NumberReply:
        """Pass the question on and remember it."""
        reply = await self._judge.ask_number(prompt, low=low, high=high)
        self.heard.append((prompt, reply.value))
        return reply

    async def aclose(self) -> None:
        """Nothing of our own to release."""


def exercises(samples: Sequence[Sample]) -> list[Exercise]:
    """What the CCRS metrics ask about `samples`, with the lexical baseline's answers."""

    async def ask() -> list[Exercise]:
        asked = []
        for sample in samples:
            listener = Listener(judge_from("lexical"))
            for metric in resolve_metrics(["ccrs"]):
                await metric.score(sample, listener)
            asked += [
                Exercise(
                    sample_id=sample.id,
                    construct=prompt.construct,
                    messages=render(prompt, request=number_request(0, 100)),
                    number=number,
                )
                for prompt, number in listener.heard
            ]
        return asked

    return asyncio.run(ask())


def demo_samples() -> list[Sample]:
    """The demo's questions, with what its retriever finds and its answerer says."""
    retriever = Bm25(load_corpus())
    samples = []
    for question in load_questions():
        texts = [passage.text for passage, _ in retriever.search(question.query, 4)]
        samples.append(
            _sample(question.id, question.query, texts, extract_answer(question.query, texts), question.reference)
        )
    return samples


def random_samples(count: int, *, seed: int) -> Iterator[Sample]:
    """Questions of the demo with good, bad, missing and overlong answers, and with other contexts than the demo finds."""
    rng = random.Random(seed)
    corpus, questions = load_corpus(), load_questions()
    retriever = Bm25(corpus)
    sentences = [f"{part.strip('.')}." for passage in corpus for part in passage.text.split(". ")]
    for n in range(count):
        question = rng.choice(questions)
        if rng.random() < SHORT_SAMPLES:
            texts = [rng.choice(sentences)]
        elif rng.random() < 0.7:
            texts = [passage.text for passage, _ in retriever.search(question.query, rng.randint(1, 4))]
        else:
            texts = [passage.text for passage in rng.sample(corpus, rng.randint(1, 4))]
        answers = (
            question.reference,
            extract_answer("", []),
            extract_answer(question.query, texts),
            rng.choice(sentences),
            " ".join(rng.sample(sentences, rng.randint(2, 3))),
            f"{question.reference} {rng.choice(sentences)}",
            " ".join(question.reference.split()[: rng.randint(2, 6)]),
        )
        yield _sample(f"random-{seed}-{n}", question.query, texts, rng.choice(answers), question.reference)


def _sample(sample_id: str, query: str, texts: Sequence[str], response: str, reference: str) -> Sample:
    contexts = tuple(Passage(text=text) for text in texts)
    return Sample(id=sample_id, query=query, contexts=contexts, response=response, reference=(reference,))


def reply(exercise: Exercise) -> str:
    """The reply to learn: tens, because a tiny model tells eleven numbers apart better than a hundred."""
    return str(round(exercise.number / 10) * 10)


def shared_lines(school: Sequence[Exercise]) -> list[str]:
    """The lines that all prompts of a construct have in common: our own wording, not the samples'."""
    lines: defaultdict[str, list[set[str]]] = defaultdict(list)
    for exercise in school:
        lines[exercise.construct].append(
            {line for message in exercise.messages for line in message["content"].split("\n")}
        )
    shared = set().union(*(set.intersection(*each) for each in lines.values()))
    # Short ones (closing tags) are cheap as they are.
    return sorted(line for line in shared if len(line) > 12)


def encode(tokenizer: PreTrainedTokenizerFast, school: Sequence[Exercise]) -> list[tuple[list[int], int]]:
    """The token ids of each chat with its reply, and where the reply starts."""
    encoded = []
    for exercise in school:
        prompt = tokenizer.apply_chat_template(exercise.messages, add_generation_prompt=True, return_dict=False)
        answer = tokenizer(reply(exercise), add_special_tokens=False)["input_ids"]
        encoded.append(([*prompt, *answer, tokenizer.eos_token_id], len(prompt)))
    return encoded


def batches(lengths: Sequence[int], rng: random.Random) -> Iterator[list[int]]:
    """Endless batches of positions; neighbors in length share a batch, so that little of it is padding."""
    while True:
        order = list(range(len(lengths)))
        rng.shuffle(order)
        blocks = [sorted(order[i : i + 8 * BATCH], key=lengths.__getitem__) for i in range(0, len(order), 8 * BATCH)]
        epoch = [block[i : i + BATCH] for block in blocks for i in range(0, len(block), BATCH)]
        rng.shuffle(epoch)
        yield from epoch


def train(model: LlamaForCausalLM, encoded: Sequence[tuple[list[int], int]]) -> None:
    """Learn the replies, and on the side to predict the prompts."""
    optimizers = Optimizers(model, lambda step: min(1.0, (step + 1) / 20, 0.05 + (STEPS - step) / (0.4 * STEPS)))
    plan = batches([len(ids) for ids, _ in encoded], random.Random(SEED))
    start, recent = time.monotonic(), 0.0
    for step in range(1, STEPS + 1):
        rows = [encoded[position] for position in next(plan)]
        width = max(len(ids) for ids, _ in rows)
        ids = torch.zeros((len(rows), width), dtype=torch.long)
        weights = torch.zeros((len(rows), width))
        for row, (tokens, reply_at) in enumerate(rows):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            weights[row, :reply_at] = PROMPT_WEIGHT / width
            weights[row, reply_at : len(tokens)] = 1.0
        logits = model(input_ids=ids).logits[:, :-1]
        nats = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        loss = (nats * weights[:, 1:].flatten()).sum() / len(rows)
        optimizers.step(loss)
        recent += loss.item()
        if step % 100 == 0:
            print(f"step {step} of {STEPS}: loss {recent / 100:.2f}, {time.monotonic() - start:.0f} s", flush=True)
            recent = 0.0


def main(folder: Path) -> None:
    """Train into `folder`, unless the model of this file and these prompts lies there."""
    rng = random.Random(SEED)
    school = [
        exercise
        for exercise in exercises(list(random_samples(SAMPLES, seed=SEED)))
        if exercise.construct == "answer_correctness" or rng.random() < 0.25
    ]
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in (Path(__file__), Path(tiny_model.__file__))))
    digest.update(json.dumps([(exercise.messages, exercise.number) for exercise in school]).encode())
    if is_finished(folder, digest.hexdigest()):
        print(f"reusing the tiny judge in {folder}")
        return
    torch.manual_seed(SEED)
    texts = [message["content"] for exercise in school for message in exercise.messages]
    tokenizer = train_tokenizer(
        [*texts, *(reply(exercise) for exercise in school)], vocabulary=VOCABULARY, whole=shared_lines(school)
    )
    model = new_model(tokenizer, width=WIDTH)
    encoded = encode(tokenizer, school)
    print(
        f"{sum(weight.numel() for weight in model.parameters()):,} parameters, {len(encoded)} exercises of "
        f"{sum(len(ids) for ids, _ in encoded) / len(encoded):.0f} tokens, the longest {max(len(ids) for ids, _ in encoded)}"
    )
    train(model, encoded)
    save(model, tokenizer, folder, digest.hexdigest())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
