"""Trains the model of this folder on texts of its world: minutes on a GPU, days on two cores.

    pip install torch==2.13.0
    python -m examples.tiny.train tiny.npz
    python -m examples.tiny.export tiny.npz tiny-f32.gguf tiny-q8_0.gguf

Prints the loss, and in the end how many of 200 fresh questions get an answer that the rules accept. The
same seed gives the same texts in the same order; weights still differ in their last bits between
machines, and so do a few answers. Only this file needs PyTorch.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from examples.tiny import shape
from examples.tiny.rules import obeys
from examples.tiny.words import Words, learned
from examples.tiny.world import END, START, TEXT_END, document, message, question

IGNORED = -100
"""The target of a token that nothing follows."""


class Texts(Dataset[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]):
    """Batches by number: ids, targets and the number of the text that a token is of, [rows, length]."""

    def __init__(self, seed: int, steps: int, rows: int, length: int) -> None:
        self._seed, self._steps, self._shape = seed, steps, (rows, length)

    def __len__(self) -> int:
        return self._steps

    def __getitem__(self, step: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        random, words = Random(self._seed * 1_000_003 + step), learned()
        ids = torch.zeros(self._shape, dtype=torch.int32)
        targets, texts = torch.full_like(ids, IGNORED), torch.full_like(ids, -1)
        rows, length = self._shape
        row, used, count = 0, 0, 0
        while True:
            text = words.encode(document(random))[:length]
            if used + len(text) > length:
                row, used = row + 1, 0
                if row == rows:
                    return ids, targets, texts
            end = used + len(text)
            ids[row, used:end] = torch.tensor(text)
            targets[row, used : end - 1] = ids[row, used + 1 : end]
            texts[row, used:end] = count
            used, count = end, count + 1


class Layer(nn.Module):
    """One layer of a llama-shaped decoder."""

    def __init__(self) -> None:
        super().__init__()
        keys, bias = shape.KV_HEADS * shape.HEAD, False
        self.attn_norm = nn.RMSNorm(shape.WIDTH, shape.EPSILON)
        self.attn_q = nn.Linear(shape.WIDTH, shape.HEADS * shape.HEAD, bias)
        self.attn_k = nn.Linear(shape.WIDTH, keys, bias)
        self.attn_v = nn.Linear(shape.WIDTH, keys, bias)
        self.attn_output = nn.Linear(shape.HEADS * shape.HEAD, shape.WIDTH, bias)
        self.ffn_norm = nn.RMSNorm(shape.WIDTH, shape.EPSILON)
        self.ffn_gate = nn.Linear(shape.WIDTH, shape.INNER, bias)
        self.ffn_up = nn.Linear(shape.WIDTH, shape.INNER, bias)
        self.ffn_down = nn.Linear(shape.INNER, shape.WIDTH, bias)

    def forward(self, h: torch.Tensor, turns: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        rows, length, _ = h.shape
        n = self.attn_norm(h)
        q, k, v = (
            linear(n).view(rows, length, -1, shape.HEAD).transpose(1, 2)
            for linear in (self.attn_q, self.attn_k, self.attn_v)
        )
        q, k = turned(q, turns), turned(k, turns)
        group = shape.HEADS // shape.KV_HEADS
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        h = h + self.attn_output(a.transpose(1, 2).reshape(rows, length, -1))
        n = self.ffn_norm(h)
        return h + self.ffn_down(F.silu(self.ffn_gate(n)) * self.ffn_up(n))


def turned(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Neighbouring elements (2i, 2i+1) of a head rotated by their position's angle, as GGUF files of this
    architecture have it. `turns` is [2, length, HEAD / 2]: cosine, sine."""
    left, right = x.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = turns
    return torch.stack([left * cos - right * sin, left * sin + right * cos], -1).flatten(-2)


class Model(nn.Module):
    """Ids and text numbers [rows, length] to logits [rows, length, tokens]."""

    def __init__(self) -> None:
        super().__init__()
        self.token_embd = nn.Embedding(shape.TOKENS, shape.WIDTH)
        self.blk = nn.ModuleList(Layer() for _ in range(shape.LAYERS))
        self.output_norm = nn.RMSNorm(shape.WIDTH, shape.EPSILON)
        exponents = torch.arange(0, shape.HEAD, 2) / shape.HEAD
        angles = torch.arange(shape.CONTEXT)[:, None] / shape.BASE**exponents
        self.register_buffer("turns", torch.stack([angles.cos(), angles.sin()]), persistent=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                into = ("attn_output.weight", "ffn_down.weight")
                deep = (2 * shape.LAYERS) ** -0.5 if name.endswith(into) else 1.0
                nn.init.normal_(weight, std=0.02 * deep)

    def forward(self, ids: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
        length = ids.shape[1]
        # A token sees what stands before it in its own text. Rotations depend on distances alone, so that
        # it does not matter where in a row the text begins.
        mask = texts[:, None, :, None] == texts[:, None, None, :]
        mask = mask & torch.ones(length, length, dtype=torch.bool, device=ids.device).tril()
        h = self.token_embd(ids)
        for layer in self.blk:
            h = layer(h, self.turns[:, :length], mask)
        return self.output_norm(h) @ self.token_embd.weight.T

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The weights under the names that GGUF files have for them."""
        return {name: weight.float().cpu().numpy() for name, weight in self.state_dict().items()}


def answers(model: Model, words: Words, questions: list[str], device: str) -> list[str]:
    """The likeliest answer to each question, each the first of a conversation."""
    begin = f"{START}assistant\n"
    rows = [words.encode(message("user", asked) + begin) for asked in questions]
    starts = [len(row) for row in rows]
    ends = {words.encode(END)[0], words.encode(TEXT_END)[0]}
    with torch.no_grad():
        while True:
            open_ = [
                row
                for row, start in zip(rows, starts)
                if len(row) == start or (row[-1] not in ends and len(row) < shape.CONTEXT)
            ]
            if not open_:
                break
            length = max(map(len, open_))
            ids = torch.zeros(len(open_), length, dtype=torch.int32)
            for number, row in enumerate(open_):
                ids[number, : len(row)] = torch.tensor(row)
            logits = model(ids.to(device), torch.zeros_like(ids).to(device))
            last = torch.tensor([len(row) - 1 for row in open_], device=device)
            chosen = logits[torch.arange(len(open_), device=device), last].argmax(-1).tolist()
            for row, token in zip(open_, chosen):
                row.append(token)
    return [words.decode(row[start:]).removesuffix(END) for row, start in zip(rows, starts)]


def score(model: Model, seed: int, count: int, device: str) -> int:
    """Prints wrong answers and how many are right by kind; gives how many are right."""
    random = Random(seed)
    asked = [question(random) for _ in range(count)]
    total, right = Counter(kind for kind, _ in asked), Counter[str]()
    found = answers(model, learned(), [text for _, text in asked], device)
    for (kind, text), answer in zip(asked, found):
        if obeys(text, answer):
            right[kind] += 1
        else:
            print(f"  wrong: {text!r}: {answer!r}")
    print(", ".join(f"{kind} {right[kind]}/{total[kind]}" for kind in sorted(total)))
    print(f"{right.total()} of {count} answers obey the rules")
    return right.total()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.tiny.train", description=__doc__)
    add = parser.add_argument
    add("out", type=Path, metavar="OUT.npz")
    add("--steps", type=int, default=12_000, help="default 12000")
    add("--seconds", type=float, default=math.inf, help="end earlier, after so long")
    add(
        "--rows",
        type=int,
        default=64,
        help=f"rows of {shape.CONTEXT} tokens in a step, default 64",
    )
    add("--rate", type=float, default=3e-3, help="of learning, at its highest; default 0.003")
    add("--seed", type=int, default=1)
    add("--questions", type=int, default=200, help="asked in the end, default 200")
    options = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    model = Model().to(device)
    count = sum(weight.numel() for weight in model.parameters())
    print(f"{count} parameters, {len(learned().tokens)} tokens, on {device}", flush=True)
    matrices = [weight for weight in model.parameters() if weight.dim() == 2]
    others = [weight for weight in model.parameters() if weight.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), fused=device == "cuda")
    texts = Texts(options.seed, options.steps, options.rows, shape.CONTEXT)
    workers = max((os.cpu_count() or 2) - 2, 1)
    batches = DataLoader(texts, batch_size=None, num_workers=workers, pin_memory=device == "cuda")

    begin = time.monotonic()
    for step, batch in enumerate(batches):
        seconds = time.monotonic() - begin
        done = max(step / options.steps, seconds / options.seconds)
        if done >= 1:
            break
        rate = options.rate * min((step + 1) / 300, 0.5 + 0.5 * math.cos(math.pi * done))
        for group in optimizer.param_groups:
            group["lr"] = rate
        ids, targets, numbers = (part.to(device, non_blocking=True) for part in batch)
        logits = model(ids, numbers)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten().long(), ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 500 == 0 or step < 3:
            print(f"step {step:6}  {seconds:6.1f} s  loss {loss.item():.4f}", flush=True)
    print(f"{step + 1} steps in {time.monotonic() - begin:.0f} s, last loss {loss.item():.4f}")
    np.savez(options.out, **model.arrays())
    score(model, options.seed + 1_000_000, options.questions, device)


if __name__ == "__main__":
    main()
