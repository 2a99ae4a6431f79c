"""Whole models of drawn weights: the encoder of MiniLM, and a step of a Llama-shaped decoder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import openinfer as oi
from benchmarks.vulkan.chains import Array, Chain, Drawn

PROGRAMS = Path(__file__).with_name("programs")


@dataclass(frozen=True)
class Encoder:
    """Sizes of an encoder, and of what it is given."""

    batch: int
    length: int
    width: int = 384
    inner: int = 1536
    heads: int = 12
    layers: int = 6

    def chain(self) -> Chain:
        """A step, without the way of a row to the device and of the results back."""
        text = (PROGRAMS / "encoder_f16.oi").read_text(encoding="utf-8")
        before, _, layers = text.partition("    loop layers")
        base = before + layers[layers.index("    op slice(h, axis=1") :]
        widths = {"dim": self.width, "hidden": self.inner, "heads": self.heads}
        sizes = {**widths, "layers": self.layers, "B": self.batch, "L": self.length}
        return Chain(lambda count: text, self._weights, self._inputs, sizes=sizes, base=base)

    def _weights(self) -> dict[str, Array]:
        drawn = Drawn(self.width)
        found = {
            "A": drawn.array("f2", self.batch, self.length, self.width),
            "visible": np.ones((self.batch, 1, 1, self.length), np.bool_),
        }
        matrices = {name: (self.width, self.width) for name in ("q", "k", "v", "out")}
        matrices |= {"up": (self.inner, self.width), "down": (self.width, self.inner)}
        for layer in range(self.layers):
            for name, shape in matrices.items():
                found[f"{layer}.{name}"] = drawn.array("f2", *shape, scale=shape[1] ** -0.5)
                found[f"{layer}.{name}_bias"] = drawn.array("f2", shape[0], scale=0.1)
            for name in ("norm", "last_norm"):
                found[f"{layer}.{name}"] = drawn.array("f2", self.width, scale=0.1, mean=1)
                found[f"{layer}.{name}_bias"] = drawn.array("f2", self.width, scale=0.1)
        return found

    def _inputs(self) -> dict[str, Array]:
        return {"s": Drawn(1).array("f2", 1, self.width)}


@dataclass(frozen=True)
class Decoder:
    """Sizes of a decoder, and how many positions stand in its cache when a step starts."""

    width: int = 2048
    layers: int = 16
    heads: int = 32
    groups: int = 8
    inner: int = 8192
    vocabulary: int = 32000
    place: int = 512

    def chain(self) -> Chain:
        """A step."""
        text = (PROGRAMS / "decode_f16.oi").read_text(encoding="utf-8")
        sizes = {
            **{"dim": self.width, "layers": self.layers, "heads": self.heads},
            **{"kv_heads": self.groups, "hidden": self.inner, "vocabulary": self.vocabulary},
        }
        return Chain(lambda count: text, self._weights, self._inputs, sizes=sizes, start=self.start)

    @property
    def size(self) -> int:
        """Elements of a head."""
        return self.width // self.heads

    def _weights(self) -> dict[str, Array]:
        drawn, width, keys = Drawn(self.width), self.width, self.groups * self.size
        matrices = {
            **{"q": (width, width), "k": (keys, width), "v": (keys, width), "out": (width, width)},
            **{"gate": (self.inner, width), "up": (self.inner, width), "down": (width, self.inner)},
        }
        found = {
            "embedding": drawn.array("f2", self.vocabulary, width),
            "scores": drawn.array("f2", self.vocabulary, width, scale=width**-0.5),
            "last_norm": drawn.array("f2", width, scale=0.1, mean=1),
        }
        for layer in range(self.layers):
            for name, shape in matrices.items():
                found[f"{layer}.{name}"] = drawn.array("f2", *shape, scale=shape[1] ** -0.5)
            for name in ("attention_norm", "mlp_norm"):
                found[f"{layer}.{name}"] = drawn.array("f2", width, scale=0.1, mean=1)
        return found

    def _inputs(self) -> dict[str, Array]:
        return {"token": np.array([17], np.int64), "place": np.array(self.place, np.int32)}

    def start(self, executor: oi.Executor) -> None:
        """Fills the tables as if `place` tokens had been read. Every step writes the same next place."""
        from openinfer.runtime.dtypes import dtype
        from openinfer.runtime.state import StateValue

        f16, shape, drawn = dtype("f16"), (self.groups, self.size), Drawn(2)
        tables = {}
        for name in "KV":
            rows = drawn.array("f2", self.layers, self.place, *shape)
            entries = {
                (layer, place): oi.Tensor(f16, shape, np.ascontiguousarray(rows[layer, place]))
                for layer in range(self.layers)
                for place in range(self.place)
            }
            tables[name] = StateValue(f16, (self.layers, self.place), entries)
        executor.restore(oi.State(tables))
