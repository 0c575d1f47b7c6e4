"""What the trainers of tiny models share: tokenizer, model, optimizers, and the stamp of a finished folder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

# Matrices this small gain nothing from threads, which wait for each other actively: on busy cores a step costs six times
# as much. The two models are trained at the same time instead.
torch.set_num_threads(1)

MAX_TOKENS = 2048
"""Longest chat a model can be served with."""

SPECIAL_TOKENS = ["<pad>", "<bos>", "<eos>", "<|system|>", "<|user|>", "<|assistant|>"]
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}"
    "{% if not (loop.last and continue_final_message) %}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def train_tokenizer(
    texts: Sequence[str], *, vocabulary: int, whole: Sequence[str], single_digits: bool = False
) -> PreTrainedTokenizerFast:
    """Byte-level BPE of `texts`, with each of `whole` as one token: short prompts train fast."""
    tokenizer = Tokenizer(models.BPE())
    pieces = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = (
        pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pieces]) if single_digits else pieces
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in whole])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<bos>", eos_token="<eos>", pad_token="<pad>")
    fast.chat_template = CHAT_TEMPLATE
    return fast


def new_model(tokenizer: PreTrainedTokenizerFast, *, width: int = 128, head_size: int = 32) -> LlamaForCausalLM:
    """An untrained model of under a million parameters; 32 is the smallest head that vLLM's attention on CPUs has."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=width,
            intermediate_size=2 * width,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=4,
            head_dim=head_size,
            max_position_embeddings=MAX_TOKENS,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            tie_word_embeddings=True,
            initializer_range=0.05,
        )
    )


class Muon(torch.optim.Optimizer):
    """Momentum whose updates are made orthogonal, in 32 bits and many matrices at once.

    torch's own works in bfloat16, which a processor without instructions for it computes so slowly that it took most of
    the training. Jordan et al. 2024, https://kellerjordan.github.io/posts/muon.
    """

    def __init__(
        self, matrices: Sequence[torch.nn.Parameter], *, lr: float, momentum: float, weight_decay: float
    ) -> None:
        super().__init__(matrices, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:
        """Learn from the gradients of all matrices."""
        for group in self.param_groups:
            alike = defaultdict(list)
            for weight in group["params"]:
                mean = self.state[weight].setdefault("mean", torch.zeros_like(weight))
                mean.lerp_(weight.grad, 1 - group["momentum"])
                update = weight.grad.lerp(mean, group["momentum"])
                alike[min(weight.shape), max(weight.shape)].append((weight, update))
            for pairs in alike.values():
                # Wide ones as they are, high ones transposed: the products below are of the smaller side.
                wide = torch.stack([update if len(update) <= len(update.T) else update.T for _, update in pairs])
                for (weight, _), update in zip(pairs, orthogonal(wide), strict=True):
                    rows, columns = weight.shape
                    weight.mul_(1 - group["lr"] * group["weight_decay"])
                    scale = max(1.0, rows / columns) ** 0.5
                    weight.add_(update if rows <= columns else update.T, alpha=-group["lr"] * scale)


def orthogonal(matrices: torch.Tensor) -> torch.Tensor:
    """Matrices (n, rows, columns) with their singular values near 1, by five steps of a polynomial of degree five."""
    linear, cubic, quintic = 3.4445, -4.7750, 2.0315
    near = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp_min(1e-7)
    for _ in range(5):
        square = near @ near.mT
        near = torch.baddbmm(near, torch.baddbmm(square, square, square, beta=cubic, alpha=quintic), near, beta=linear)
    return near


class Optimizers:
    """Muon for the matrices, which finds the matching of words in about a third of AdamW's steps; AdamW for the rest."""

    def __init__(self, model: LlamaForCausalLM, rate: Callable[[int], float]) -> None:
        matrices = [weight for name, weight in model.named_parameters() if weight.ndim == 2 and "embed" not in name]
        others = [weight for name, weight in model.named_parameters() if weight.ndim != 2 or "embed" in name]
        self._model = model
        self._optimizers = [
            Muon(matrices, lr=0.01, momentum=0.95, weight_decay=0.01),
            torch.optim.AdamW(others, lr=3e-3, betas=(0.9, 0.98), weight_decay=0.0),
        ]
        self._schedules = [torch.optim.lr_scheduler.LambdaLR(each, rate) for each in self._optimizers]

    def step(self, loss: torch.Tensor) -> None:
        """Learn from one loss."""
        self._model.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        for optimizer, schedule in zip(self._optimizers, self._schedules, strict=True):
            optimizer.step()
            schedule.step()


def is_finished(folder: Path, digest: str) -> bool:
    """Whether the folder holds the model that was trained from what `digest` stands for."""
    stamp = folder / "trained-from.sha256"
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == digest


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path, digest: str) -> None:
    """Write the folder, the stamp last: an interrupted training leaves no folder that looks finished."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "trained-from.sha256").write_text(digest, encoding="utf-8")
