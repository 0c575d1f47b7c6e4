"""Train a tiny reader that abstains: `python train_tiny_reader.py FOLDER`, two minutes on one core.

It stands for an application with a prompt of its own (`TEMPLATE`), which asks about an invented register of ships, and its
probability to reply NO-RESPONSE is known: in training each passage convinces it with the chance of its kind (`CONVINCES`), it goes through them in order,
and replies with what the first convincing one says, or NO-RESPONSE when none convinces. With one passage, the best that
a model can learn is to abstain with probability 1 - CONVINCES[kind].

Two traps are in it on purpose: NO-RESPONSE is several tokens, and all permits begin with the first of them, so that the
first token overstates abstention; and a passage about a ship of similar name misleads in more than half of the cases.

A folder that already holds the model of this file and this prompt is left as it is.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import tiny_model
import torch
from tiny_model import Optimizers, is_finished, new_model, save, train_tokenizer
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from ragstone.judges import Message
from ragstone.judges._abstention.prompt import ReaderPrompt

SEED = 11
STEPS = 1100
PHRASE = "NO-RESPONSE"

FIRST = ["Amber", "Brisk", "Copper", "Dusky", "Eager", "Frosty", "Gilded", "Hollow", "Idle", "Jolly"]
LAST = ["Heron", "Gannet", "Petrel", "Curlew", "Plover", "Osprey", "Avocet", "Bittern"]
VALUES = {
    "harbour": ["Aldmere", "Brockhaven", "Corran", "Dunwick", "Elsmouth", "Farrow", "Gullsby", "Hythe"],
    "cargo": ["barley", "cotton", "granite", "pepper", "saffron", "timber", "velvet", "walnut"],
    "captain": ["Anselm", "Beatrix", "Conrad", "Dagny", "Elias", "Freya", "Gustav", "Helga"],
    "flag": ["azure", "bronze", "cherry", "golden", "lilac", "maroon", "orange", "purple"],
    "permit": [f"NO-{tree}" for tree in ["Alder", "Birch", "Cedar", "Hazel", "Juniper", "Larch", "Maple", "Willow"]],
}
ENTRIES = list(VALUES)

CONVINCES = {
    "gold": 0.97,  # this ship, this entry
    "hard": 0.55,  # this entry of a ship that shares one of two names
    "weak": 0.2,  # this entry of another ship
    "other": 0.0,  # another entry of this ship
    "unrelated": 0.0,  # another entry of another ship
}
"""The chance that a passage of a kind is believed."""
KINDS = list(CONVINCES)

# A name is written in another way in passages than in questions, and so in other tokens: a short training finds that two
# different tokens belong together more easily than that one stands in both places.
PASSAGES = ("{ship} ({entry}): {value}.", "{ship} ({entry}) is {value}.")
QUESTIONS = ("What is the {entry} of the {ship}?", "Tell me the {entry} of the {ship}?")

INSTRUCTION = "Answer from the register, or reply NO-RESPONSE.\nRegister:\n"
TEMPLATE = INSTRUCTION + "{context}\nQuestion: {question}"
READER = {"prompt": TEMPLATE, "separator": "\n"}
"""Options of `ChatReader`."""
_PROMPT = ReaderPrompt(TEMPLATE, phrase=PHRASE, separator="\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A question with passages of known kinds."""

    question: str
    passages: tuple[str, ...]
    kinds: tuple[str, ...]
    values: tuple[str, ...]
    """What each passage says."""
    truth: str
    """The right answer, whether a passage holds it or not."""
    entry: str

    @property
    def messages(self) -> list[Message]:
        """What the reader is asked."""
        return _PROMPT.messages(self.question, self.passages)

    def reply(self, rng: random.Random, *, certain: bool = False) -> str:
        """A reply as the reader should give it; `certain` believes gold passages and no others."""
        for kind, value in zip(self.kinds, self.values, strict=True):
            if kind == "gold" if certain else rng.random() < CONVINCES[kind]:
                return value
        return PHRASE


def is_held_out(ship: tuple[str, str]) -> bool:
    """Every fifth name is not asked about in training."""
    return (FIRST.index(ship[0]) + 2 * LAST.index(ship[1])) % 5 == 0


def other_ship(rng: random.Random, ship: tuple[str, str], *, similar: bool) -> tuple[str, str]:
    """A ship that shares one of the names, or none."""
    first = rng.choice([name for name in FIRST if name != ship[0]])
    last = rng.choice([name for name in LAST if name != ship[1]])
    if not similar:
        return first, last
    return (ship[0], last) if rng.random() < 0.5 else (first, ship[1])


def make_case(rng: random.Random, kinds: Sequence[str], *, held_out: bool = False, entry: str | None = None) -> Case:
    """A case with passages of these kinds, in this order."""
    while is_held_out(ship := (rng.choice(FIRST), rng.choice(LAST))) != held_out:
        pass
    entry = entry or rng.choice(ENTRIES)
    truth = rng.choice(VALUES[entry])
    passages, values = [], []
    for kind in kinds:
        about = ship if kind in {"gold", "other"} else other_ship(rng, ship, similar=kind == "hard")
        line = entry if kind in {"gold", "hard", "weak"} else rng.choice([e for e in ENTRIES if e != entry])
        value = truth if kind == "gold" else rng.choice([v for v in VALUES[line] if v != truth])
        passages.append(rng.choice(PASSAGES).format(ship="-".join(about), entry=line, value=value))
        values.append(value)
    return Case(
        question=rng.choice(QUESTIONS).format(entry=entry, ship=" ".join(ship)),
        passages=tuple(passages),
        kinds=tuple(kinds),
        values=tuple(values),
        truth=truth,
        entry=entry,
    )


def random_kinds(rng: random.Random, count: int) -> list[str]:
    """Kinds of the passages of one context."""
    return rng.choices(KINDS, (0.3, 0.22, 0.16, 0.12, 0.2) if count == 1 else (0.16, 0.2, 0.2, 0.14, 0.3), k=count)


Pair = tuple[list[Message], str]


def short_pair(rng: random.Random, *, graded: bool) -> Pair:
    """The start of the curriculum: one passage and one question, without instructions or chance."""
    case = make_case(rng, rng.choices(KINDS, (0.4, 0.2, 0.1, 0.2, 0.1)))
    kind, text, lot = case.kinds[0], f"{case.passages[0]}\n{case.question}", rng.random()
    if lot < 0.2:
        reply = case.truth if kind == "gold" else PHRASE
    elif graded and lot < 0.6:
        text, reply = f"{text}\nGrade", "abcde"[KINDS.index(kind)]
    else:
        text, reply = f"{text}\nStated?", "yes" if kind == "gold" else "no"
    return [{"role": "user", "content": text}], reply


def pairs(rng: random.Random, phase: int) -> list[Pair]:
    """A batch: short exercises first, then whole prompts without chance, then replies as they shall be."""
    if phase == 0:
        return [short_pair(rng, graded=False) for _ in range(64)]
    if phase == 1:
        cases = [make_case(rng, random_kinds(rng, count)) for count in [1] * 18 + [4] * 10]
        return [
            *(short_pair(rng, graded=True) for _ in range(18)),
            *((case.messages, case.reply(rng, certain=True)) for case in cases),
        ]
    # Prompts of one length share a batch.
    count = rng.choices((1, 2, 3, 5), (0.3, 0.15, 0.2, 0.35))[0]
    cases = [make_case(rng, random_kinds(rng, count)) for _ in range({1: 40, 2: 32, 3: 24, 5: 18}[count])]
    return [(case.messages, case.reply(rng)) for case in cases]


def encode(tokenizer: PreTrainedTokenizerFast, batch: Sequence[Pair]) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids, and the weight of each: 1 in replies, a little in prompts, 0 beyond the end."""
    rows = []
    for messages, reply in batch:
        prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        rows.append((prompt, [*tokenizer(reply, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]))
    width = max(len(prompt) + len(reply) for prompt, reply in rows)
    ids, weights = torch.zeros((len(rows), width), dtype=torch.long), torch.zeros((len(rows), width))
    n_reply, n_prompt = (sum(len(row[part]) for row in rows) for part in (1, 0))
    for row, (prompt, reply) in enumerate(rows):
        ids[row, : len(prompt) + len(reply)] = torch.tensor([*prompt, *reply])
        weights[row, : len(prompt)] = 0.1 / n_prompt
        weights[row, len(prompt) : len(prompt) + len(reply)] = 1 / n_reply
    return ids, weights


def rate(step: int) -> float:
    """The learning rate: up, level, down; and lower once replies are drawn, because chance undoes the matching."""
    part = step / STEPS
    falling = 1.0 if part < 0.6 else 0.03 + 0.485 * (1 + math.cos(math.pi * (part - 0.6) / 0.4))
    return min(1.0, (step + 1) / 50) * falling * (0.4 if part >= 0.5 else 1.0)


def train(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """Learn to tell ships apart, then to read, then to doubt."""
    rng, optimizers = random.Random(SEED), Optimizers(model, rate)
    start, losses, phase = time.monotonic(), [], 0
    for step in range(STEPS):
        if phase == 0 and (step >= 0.4 * STEPS or (step > 100 and sum(losses[-25:]) < 25 * 0.06)):
            phase = 1
        if step >= 0.5 * STEPS:
            phase = 2
        ids, weights = encode(tokenizer, pairs(rng, phase))
        logits = model(input_ids=ids).logits[:, :-1]
        nats = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        weighted = nats.view(len(ids), -1) * weights[:, 1:]
        optimizers.step(weighted.sum())
        losses.append(float((weighted * (weights[:, 1:] >= weights.max())).sum().detach()))
        if (step + 1) % 100 == 0:
            recent = sum(losses[-100:]) / 100
            print(
                f"step {step + 1} of {STEPS}: phase {phase}, loss {recent:.3f}, {time.monotonic() - start:.0f} s",
                flush=True,
            )


@torch.no_grad()
def reply_probability(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, messages: Sequence[Message], reply: str
) -> tuple[float, float]:
    """Probabilities by a plain forward pass: that the reply starts with `reply`, and that it is exactly that."""
    prompt = tokenizer.apply_chat_template(list(messages), add_generation_prompt=True, return_dict=False)
    said = [*tokenizer(reply, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    logits = model(input_ids=torch.tensor([[*prompt, *said]])).logits[0, len(prompt) - 1 : -1]
    nats = torch.log_softmax(logits.double(), -1).gather(1, torch.tensor(said)[:, None])[:, 0]
    return float(nats[:-1].sum().exp()), float(nats.sum().exp())


def texts() -> Iterator[str]:
    """What the tokenizer learns words from."""
    rng = random.Random(SEED)
    for _ in range(1500):
        case = make_case(rng, random_kinds(rng, 2))
        yield from (case.question, *case.passages, *case.values, PHRASE, "yes", "no")


def report(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """Print what was learnt about ships that training never asked about."""
    rng = random.Random(SEED + 1)
    for kind in KINDS:
        cases = [make_case(rng, [kind], held_out=True) for _ in range(60)]
        found = [reply_probability(model, tokenizer, case.messages, PHRASE)[0] for case in cases]
        print(f"p({PHRASE} | {kind}) is {sum(found) / len(found):.3f} on average, taught: {1 - CONVINCES[kind]:.2f}")


def main(folder: Path) -> None:
    """Train into `folder`, unless the model of this file and this prompt lies there."""
    example = make_case(random.Random(SEED), random_kinds(random.Random(SEED), 5))
    sources = b"".join(each.read_bytes() for each in (Path(__file__), Path(tiny_model.__file__)))
    digest = hashlib.sha256(sources + json.dumps(example.messages).encode()).hexdigest()
    if is_finished(folder, digest):
        print(f"reusing the tiny reader in {folder}")
        return
    torch.manual_seed(SEED)
    # Our own wording is one token.
    tokenizer = train_tokenizer(list(texts()), vocabulary=600, whole=[INSTRUCTION], single_digits=True)
    model = new_model(tokenizer, width=96)
    n_tokens = len(tokenizer.apply_chat_template(example.messages, return_dict=False))
    print(f"{sum(weight.numel() for weight in model.parameters()):,} parameters; five passages are {n_tokens} tokens")
    train(model, tokenizer)
    model.eval()
    report(model, tokenizer)
    save(model, tokenizer, folder, digest)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
