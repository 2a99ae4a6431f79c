"""PyTorch's side of the rows, in a process of its own and by any Python that has PyTorch with CUDA.

Imports nothing of this project. Reads one JSON object from stdin, `{"rows": [...], "seconds": S, "compile":
true, "device": "cuda"}`, and writes a line of JSON for itself and one for each row, as soon as it has it.

Times are those of CUDA events: eager, as a CUDA graph, and for whole models compiled and then a graph.
On another device than "cuda", for tests, they are those of the clock, and there are no graphs.
"""

from __future__ import annotations

import gc
import json
import math
import os
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

LEAST, MOST = 5, 400
WARM = 0.4
SPIN_UP, PAUSE = 1.5, 2.0
"""Seconds of work behind a pause of so many: the clock of an idle device takes so long to come up."""
MODE = "max-autotune-no-cudagraphs"


def main() -> None:
    pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What libraries print is no answer.

    def answer(line: dict[str, Any]) -> None:
        pipe.write(json.dumps(line) + "\n")
        pipe.flush()

    # The files beside this one are nobody's modules here.
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]
    order = json.loads(sys.stdin.read())
    try:
        import torch
    except ImportError:
        answer({"absent": "this Python has no PyTorch"})
        return
    if order["device"] == "cuda" and not torch.cuda.is_available():
        answer({"absent": f"PyTorch {torch.__version__} finds no CUDA device"})
        return
    bench = Bench(torch, order["device"])
    answer({"about": bench.about()})
    with torch.inference_mode():
        for row in order["rows"]:
            try:
                found = bench.row(row, order["seconds"], order["compile"])
            except Exception as error:
                found = {"error": f"{type(error).__name__}: {error}".strip()[:500]}
            answer({"row": row["name"], "found": found})
            bench.forget()


class Bench:
    """What rows are made of, on one device."""

    def __init__(self, torch: Any, device: str) -> None:
        self.torch, self.device = torch, device
        self.cuda = device == "cuda"
        torch.manual_seed(0)
        self._worked = float("-inf")
        """When the device had work last."""
        # Products of f32 have all bits, as ours.
        torch.backends.cuda.matmul.allow_tf32 = False

    def about(self) -> dict[str, str]:
        torch = self.torch
        found = {"torch": torch.__version__, "cuda": str(torch.version.cuda)}
        if self.cuda:
            found["device"] = torch.cuda.get_device_name()
        return found

    def forget(self) -> None:
        """Gives back what a row had."""
        gc.collect()
        if self.cuda:
            self.torch.cuda.synchronize()
            self.torch.cuda.empty_cache()

    def row(self, row: dict[str, Any], seconds: float, compiles: bool) -> dict[str, Any]:
        """Seconds of one link, by how it was run."""
        calls = row.get("calls", 1)
        run = getattr(self, f"_{row['kind']}")(row)
        found = {"PyTorch eager": self._timed(run, calls, seconds)}
        if not self.cuda:
            return found
        found["PyTorch CUDA graph"] = self._timed(self._graph(run), calls, seconds)
        if row.get("compile") and compiles:
            try:
                made = self.torch.compile(run, mode=MODE, dynamic=False)
                found["PyTorch compiled graph"] = self._timed(self._graph(made), calls, seconds)
            except Exception as error:
                found["PyTorch compiled graph"] = {
                    "error": f"{type(error).__name__}: {error}"[:500]
                }
        return found

    def _graph(self, run: Callable[[], Any]) -> Callable[[], Any]:
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = run()

        def replay(kept: Any = kept) -> None:
            graph.replay()

        return replay

    def _timed(self, run: Callable[[], Any], calls: int, seconds: float) -> dict[str, Any]:
        device: list[float] = []
        wall: list[float] = []
        if self.cuda and time.monotonic() > self._worked + PAUSE:
            self._spin_up()
        self._repeat(run, seconds * WARM, 2, [], [])
        self._repeat(run, seconds * (1 - WARM), LEAST, device, wall)
        self._worked = time.monotonic()
        return {
            "seconds": median(device) / calls,
            "least": min(device) / calls,
            "wall": median(wall) / calls,
            "steps": len(device),
        }

    def _spin_up(self) -> None:
        some = self._drawn(4096, 4096)
        end = time.monotonic() + SPIN_UP
        while time.monotonic() < end:
            for _ in range(20):
                self.torch.mm(some, some)
            self.torch.cuda.synchronize()

    def _repeat(
        self,
        run: Callable[[], Any],
        seconds: float,
        least: int,
        device: list[float],
        wall: list[float],
    ) -> None:
        cuda = self.torch.cuda
        end, count = time.perf_counter() + seconds, 0
        while count < least or (time.perf_counter() < end and count < MOST):
            count += 1
            start = time.perf_counter()
            if not self.cuda:
                run()
                wall.append(time.perf_counter() - start)
                device.append(wall[-1])
                continue
            before, behind = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            before.record()
            run()
            behind.record()
            behind.synchronize()
            wall.append(time.perf_counter() - start)
            device.append(before.elapsed_time(behind) * 1e-3)

    def _drawn(self, *shape: int, dtype: str = "f16", scale: float = 1.0, mean: float = 0.0) -> Any:
        kind = {"f16": self.torch.float16, "f32": self.torch.float32}[dtype]
        numbers = self.torch.randn(shape, device=self.device, dtype=self.torch.float32)
        return (numbers * scale + mean).to(kind)

    # The kinds of rows

    def _product(self, row: dict[str, Any]) -> Callable[[], Any]:
        size, dtype, linear = row["size"], row["dtype"], self.torch.nn.functional.linear
        first = self._drawn(size, size, dtype=dtype)
        weight = self._drawn(size, size, dtype=dtype, scale=size**-0.5)

        def run() -> Any:
            x = first
            for _ in range(row["calls"]):
                x = linear(x, weight) if row["turned"] else x @ weight
            return x

        return run

    def _matvec(self, row: dict[str, Any]) -> Callable[[], Any]:
        size, linear = row["size"], self.torch.nn.functional.linear
        first = self._drawn(1, size)
        weights = [self._drawn(size, size, scale=size**-0.5) for _ in range(row["matrices"])]

        def run() -> Any:
            x = first
            for number in range(row["calls"]):
                x = linear(x, weights[number % len(weights)])
            return x

        return run

    def _attention(self, row: dict[str, Any]) -> Callable[[], Any]:
        attend = self.torch.nn.functional.scaled_dot_product_attention
        heads, groups, size = row["heads"], row["groups"], row["size"]
        first = self._drawn(1, heads, row["queries"], size)
        keys, values = (self._drawn(1, groups, row["keys"], size) for _ in range(2))
        if row["queries"] == 1 and heads != groups:
            # The heads of a group are rows of one product with its keys.
            first = first.view(1, groups, heads // groups, size)
            shared = {}
        else:
            shared = {"is_causal": row["causal"], "enable_gqa": heads != groups}

        def run() -> Any:
            x = first
            for _ in range(row["calls"]):
                x = attend(x, keys, values, **shared)
            return x

        return run

    def _rows(self, row: dict[str, Any]) -> Callable[[], Any]:
        functional = self.torch.nn.functional
        width, inner, form = row["width"], row["inner"], row["form"]
        first = self._drawn(row["length"], width)
        scale, shift = self._drawn(width, scale=0.1, mean=1), self._drawn(width, scale=0.1)
        layers = range(6)
        up = [(self._drawn(inner, width, scale=width**-0.5), self._drawn(inner)) for _ in layers]
        down = [(self._drawn(width, inner, scale=inner**-0.5), self._drawn(width)) for _ in layers]
        out = [(self._drawn(width, width, scale=width**-0.5), self._drawn(width)) for _ in layers]

        def link(x: Any, layer: int) -> Any:
            if form == "out":
                return functional.linear(x, *out[layer]) + x
            n = functional.layer_norm(x, (width,), scale, shift)
            h = functional.linear(n, *up[layer])
            if form == "qkv":
                return h
            h = functional.gelu(h)
            return h if form == "up" else functional.linear(h, *down[layer]) + n

        def run() -> Any:
            found = first
            for number in range(row["calls"]):
                found = link(first, number % len(layers))
            return found

        return run

    def _elementwise(self, row: dict[str, Any]) -> Callable[[], Any]:
        torch, shape = self.torch, (row["length"], row["width"])
        left, right = (self._drawn(*shape, dtype="f32") for _ in range(2))
        target = torch.empty_like(left)

        def run() -> Any:
            for _ in range(row["calls"]):
                torch.add(left, right, out=target)
            return target

        return run

    def _softmax(self, row: dict[str, Any]) -> Callable[[], Any]:
        first = self._drawn(row["length"], row["width"], dtype="f32")

        def run() -> Any:
            x = first
            for _ in range(row["calls"]):
                x = self.torch.softmax(x, -1)
            return x

        return run

    def _encoder(self, row: dict[str, Any]) -> Callable[[], Any]:
        functional = self.torch.nn.functional
        batch, length, width, heads = row["batch"], row["length"], row["width"], row["heads"]
        first = self._drawn(batch, length, width)
        visible = self.torch.ones(batch, 1, 1, length, dtype=self.torch.bool, device=self.device)
        shapes = {
            **{"qkv": (3 * width, width), "out": (width, width)},
            **{"up": (row["inner"], width), "down": (width, row["inner"])},
        }
        layers = [
            {
                name: (
                    self._drawn(*shape, scale=shape[1] ** -0.5),
                    self._drawn(shape[0], scale=0.1),
                )
                for name, shape in shapes.items()
            }
            | {
                name: (self._drawn(width, scale=0.1, mean=1), self._drawn(width, scale=0.1))
                for name in ("norm", "last")
            }
            for _ in range(row["layers"])
        ]

        def run() -> Any:
            h = first
            for layer in layers:
                parts = functional.linear(h, *layer["qkv"]).view(batch, length, 3, heads, -1)
                q, k, v = parts.permute(2, 0, 3, 1, 4)
                a = functional.scaled_dot_product_attention(q, k, v, visible)
                a = a.transpose(1, 2).reshape(batch, length, width)
                h = functional.linear(a, *layer["out"]) + h
                h = functional.layer_norm(h, (width,), *layer["norm"], 1e-12)
                f = functional.gelu(functional.linear(h, *layer["up"]))
                h = functional.linear(f, *layer["down"]) + h
                h = functional.layer_norm(h, (width,), *layer["last"], 1e-12)
            return h[:, :1]

        return run

    def _decoder(self, row: dict[str, Any]) -> Callable[[], Any]:
        torch, functional = self.torch, self.torch.nn.functional
        width, heads, groups, inner = row["width"], row["heads"], row["groups"], row["inner"]
        size, place = width // heads, row["place"]
        keys = groups * size
        shapes = {
            **{"qkv": (width + 2 * keys, width), "out": (width, width)},
            **{"up": (2 * inner, width), "down": (width, inner)},
        }
        layers = [
            {name: self._drawn(*s, scale=s[1] ** -0.5) for name, s in shapes.items()}
            | {name: self._drawn(width, scale=0.1, mean=1) for name in ("norm", "mlp")}
            | {name: self._drawn(groups, place + 1, size) for name in ("K", "V")}
            for _ in range(row["layers"])
        ]
        embedding = self._drawn(row["vocabulary"], width)
        scores = self._drawn(row["vocabulary"], width, scale=width**-0.5)
        last = self._drawn(width, scale=0.1, mean=1)
        token = torch.tensor([17], device=self.device)
        angles = [place / 10000 ** (2 * pair / size) for pair in range(size // 2)]
        cos, sin = (
            torch.tensor([turn(a) for a in angles], dtype=torch.float16, device=self.device)
            for turn in (math.cos, math.sin)
        )

        def rotated(x: Any) -> Any:
            left, right = x.chunk(2, -1)
            return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)

        def run() -> Any:
            h = functional.embedding(token, embedding)
            for layer in layers:
                n = functional.rms_norm(h, (width,), layer["norm"], 1e-5)
                q, k, v = functional.linear(n, layer["qkv"]).split([width, keys, keys], -1)
                layer["K"][:, place] = rotated(k.view(groups, size))
                layer["V"][:, place] = v.view(groups, size)
                # The heads of a group are rows of one product with its keys.
                q = rotated(q.view(groups, heads // groups, size))
                a = functional.scaled_dot_product_attention(q, layer["K"], layer["V"])
                h = h + functional.linear(a.reshape(1, width), layer["out"])
                n = functional.rms_norm(h, (width,), layer["mlp"], 1e-5)
                gate, up = functional.linear(n, layer["up"]).chunk(2, -1)
                h = h + functional.linear(functional.silu(gate) * up, layer["down"])
            return functional.linear(functional.rms_norm(h, (width,), last, 1e-5), scores)

        return run


if __name__ == "__main__":
    main()
