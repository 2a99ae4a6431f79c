"""Passes that make an imported program legible change none of its results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import FloatAttr, f64

import openinfer as oi
from openinfer.compiler.frontend.layout import formatted
from openinfer.compiler.frontend.printer import print_program
from openinfer.compiler.importers.graph_writer import GraphWriter, Imported, Value
from openinfer.compiler.importers.readable import readable
from openinfer.dialects.graph import OpOp
from openinfer.lowering.graph.imports.meaning import same_program
from openinfer.lowering.graph.imports.provenance import Provenance

WIDTH = 8


@dataclass
class Net:
    """Writes a residual network as a reader of a foreign model does."""

    seed: int = 0
    nameless: bool = False
    """Weights have names of the importer: `val_0`, `val_3`."""
    g: GraphWriter = field(default_factory=lambda: GraphWriter(reserved=["x", "y"]))

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.x = self.g.input("x", "f32", ["B", "L", WIDTH])
        self.weights = 0

    def weight(self, name: str, *shape: int) -> Value:
        if self.nameless:
            name = f"val_{self.weights * 3 + self.weights % 2}"
        self.weights += 1
        array = self.rng.standard_normal(shape, dtype=np.float32) / WIDTH
        return self.g.weight(name, array, "f32", shape)

    def linear(self, h: Value, path: str, width: int = WIDTH, variable: str = "") -> Value:
        with self.g.at(Provenance(path, "Linear", variable, "aten.linear", "net.py", 7)):
            weight = self.weight(f"{path}.weight", width, h.dims[-1].constant or 0)
            return self.g.op("linear", h, weight, self.weight(f"{path}.bias", width))

    def layer(self, h: Value, path: str, act: str = "gelu", scale: float = 0.5) -> Value:
        up = self.linear(h, f"{path}.mlp.up", 2 * WIDTH)
        with self.g.at(Provenance(f"{path}.mlp.act", "GELU", "", "aten.gelu")):
            up = self.g.op(act, up)
        down = self.linear(up, f"{path}.mlp.down", WIDTH, "out")
        with self.g.at(Provenance(path, "Layer", "h", "aten.add", "net.py", 9)):
            down = self.g.op("mul", down, scale)
            h = self.g.op("add", down, h)
        with self.g.at(Provenance(f"{path}.LayerNorm", "LayerNorm", "h", "aten.layer_norm")):
            w, b = (self.weight(f"{path}.LayerNorm.{n}", WIDTH) for n in ("weight", "bias"))
            return self.g.op("layer_norm", h, w, b, axis=-1, eps=1e-5)

    def finish(self, h: Value) -> Imported:
        y = self.linear(h, "head", 3)
        return self.g.finish([("y", y)], metadata={"num_hidden_layers": 4}, source="net")


def equal_layers() -> Imported:
    net = Net()
    h = net.linear(net.x, "embed")
    for i in range(4):
        h = net.layer(h, f"encoder.layer.{i}")
    return net.finish(h)


def first_differs() -> Imported:
    net = Net(1)
    h = net.layer(net.x, "blocks.block_0", "silu")
    for i in range(1, 5):
        h = net.layer(h, f"blocks.block_{i}")
    return net.finish(h)


def stages() -> Imported:
    """Of each stage the first block is wider inside: its weights have other shapes under the same names."""
    net = Net(7)
    h = net.x
    for i in range(4):
        path = f"layer1.{i}"
        up = net.linear(h, f"{path}.up", WIDTH * (1 if i else 3))
        up = net.linear(net.g.op("relu", up), f"{path}.down")
        h = net.g.op("add", up, h)
    return net.finish(h)


def alternating() -> Imported:
    net = Net(2)
    h = net.x
    for i in range(6):
        h = net.layer(h, f"layers.{i}", "gelu" if i % 2 else "relu")
    return net.finish(h)


def numbers_differ() -> Imported:
    net = Net(3)
    h = net.x
    for i in range(4):
        h = net.layer(h, f"layers.{i}", scale=0.1 * (i + 1))
    return net.finish(h)


def no_names() -> Imported:
    net = Net(4, nameless=True)
    h = net.x
    for i in range(4):
        h = net.layer(h, f"layers.{i}")
    return net.finish(h)


def tied_layers() -> Imported:
    net = Net(5)
    h = net.x
    shared = [net.weight(f"shared.{n}", WIDTH, WIDTH) for n in "ab"]
    for _ in range(4):
        with net.g.at(Provenance("shared", "Shared", "h")):
            a = net.g.op("gelu", net.g.op("linear", h, shared[0]))
            h = net.g.op("add", net.g.op("tanh", net.g.op("linear", a, shared[1])), h)
    return net.finish(h)


def inner_value_is_read() -> Imported:
    net = Net(6)
    h, inner = net.x, []
    for i in range(6):
        h = net.layer(h, f"layers.{i}")
        inner.append(h)
    return net.finish(net.g.op("add", inner[1], h))


@pytest.mark.parametrize(
    ("make", "loops", "most"),
    [
        (equal_layers, ["loop layers (l in 0..num_hidden_layers) {"], 40),
        (first_differs, ["loop blocks (l in 1..5) {"], 45),
        (stages, ["loop layer1 (l in 0..3) {"], 40),
        (alternating, ["loop layers (l in 0..3) {"], 45),
        (numbers_differ, ["loop layers (l in 0..num_hidden_layers) {"], 35),
        (no_names, ["loop layers (l in 0..num_hidden_layers) {"], 35),
        (tied_layers, ["loop layers (l in 0..num_hidden_layers) {"], 28),
        (inner_value_is_read, ["loop layers (l in 2..6) {"], 55),
    ],
)
def test_the_text_computes_what_was_imported(
    make: Callable[[], Imported], loops: list[str], most: int
) -> None:
    imported = make()
    before = oi.Simulator(oi.graph(print_program(imported.module)), dict(imported.tensors))
    graph, package, report = readable(imported)
    text = str(graph)
    assert [line.strip() for line in text.splitlines() if "loop " in line] == loops
    assert report.lines == text.count("\n") <= most
    assert formatted(text, "net.oi") == text
    assert str(readable(make())[0]) == text, "the same model gives another text"
    after = oi.Simulator(graph, package)
    compiled = oi.compile(graph, package) if make in (stages, numbers_differ) else None
    plain, plain_package, _ = readable(imported, roll=False, comments=True)
    assert "loop " not in str(plain)
    unrolled = oi.Simulator(plain, plain_package)
    rng = np.random.default_rng(9)
    for shape in ((2, 3), (1, 5), (3, 1)):
        x = rng.standard_normal((*shape, WIDTH), dtype=np.float32)
        want = before.make_executor().run(x=x)["y"]
        np.testing.assert_array_equal(after.make_executor().run(x=x)["y"], want)
        np.testing.assert_array_equal(unrolled.make_executor().run(x=x)["y"], want)
        if compiled is not None:
            np.testing.assert_allclose(compiled.make_executor().run(x=x)["y"], want, atol=2e-6)


def test_the_text_reads_well() -> None:
    graph, package, report = readable(equal_layers(), comments=True)
    assert str(graph).startswith("// net, imported\n\ndynamic {\n    x: f32[B, L, 8];\n}\n")
    body = str(graph).partition("    loop layers")[2].partition("\n    }\n")[0]
    assert body.splitlines()[1:] == [
        "        // encoder.layer.{l}.mlp.up (Linear) net.py:7",
        "        // encoder.layer.{l}.mlp.act (GELU)",
        "        up = op gelu(linear(h, up_w[l], up_b[l]));",
        "        // encoder.layer.{l}.mlp.down (Linear) net.py:7",
        "        // encoder.layer.{l} (Layer) net.py:9",
        "        down = op mul(linear(up, down_w[l], down_b[l]), 0.5);",
        "        // encoder.layer.{l}.LayerNorm (LayerNorm)",
        "        h = op layer_norm(add(down, h), norm_w[l], norm_b[l]);",
    ]
    assert dict(package.sizes) == {"num_hidden_layers": 4}
    assert "rolled `encoder.layer.{l}`: 4 layers of 6 statements became one loop" in str(report)
    assert report.to_dict()["loops"] == 1


def _change(imported: Imported, **properties: Any) -> None:
    """Another operand or setting of one op in the middle."""
    op = [o for o in imported.module.walk() if isinstance(o, OpOp)][7]
    for key, value in properties.items():
        op.properties[key] = value


def test_other_programs_are_told_apart() -> None:
    """What proves loops equal to layers sees another operand, and another setting."""
    before, after = equal_layers(), equal_layers()
    assert same_program(before.module, after.module)
    ops = [op for op in after.module.walk() if isinstance(op, OpOp)]
    _change(after, inputs=ops[1].inputs)
    assert not same_program(before.module, after.module)
    other = equal_layers()
    norm = next(op for op in other.module.walk() if isinstance(op, OpOp) and op.settings.data)
    norm.properties["settings"] = type(norm.settings)({})
    assert same_program(before.module, other.module), "an eps of 1e-5 goes without saying"
    norm.properties["settings"] = type(norm.settings)({"eps": FloatAttr(1e-3, f64)})
    assert not same_program(before.module, other.module)


def two_towers(*paths: str) -> Imported:
    """One tower for several inputs, or towers of other weights at `paths`; a head that compares them."""
    g = GraphWriter(reserved=["query", "passage", "other", "score"])
    rng = np.random.default_rng(11)
    weights: dict[str, Value] = {}

    def weight(name: str) -> Value:
        if name not in weights:
            array = rng.standard_normal((WIDTH, WIDTH), dtype=np.float32) / WIDTH
            weights[name] = g.weight(name, array, "f32", array.shape)
        return weights[name]

    found: list[Value] = []
    for name, path in zip(("query", "passage", "other"), paths):
        h = g.input(name, "f32", ["B", "L", WIDTH])
        for i in range(4):
            with g.at(Provenance(f"{path}.layers.{i}", "Layer", "h")):
                up = g.op("gelu", g.op("linear", h, weight(f"{path}.layers.{i}.up.weight")))
                h = g.op("add", g.op("linear", up, weight(f"{path}.layers.{i}.down.weight")), h)
        with g.at(Provenance(path, "Tower", "h")):
            for op in ("tanh", "exp", "sigmoid", "neg"):
                h = g.op(op, h)
        found.append(h)
    score = g.op("sub", g.op("mul", found[0], found[1]), g.op("mul", found[0], found[2]))
    return g.finish([("score", score)], source="towers")


def test_a_module_that_is_called_several_times_is_a_block() -> None:
    imported = two_towers("tower", "tower", "tower")
    graph, package, report = readable(imported)
    text = str(graph)
    assert text.count("branch tower;") == 3
    assert text.count("loop layers") == text.count("block tower {") == 1
    assert "transfer y >> tower_query;" in text
    before = oi.Simulator(oi.graph(print_program(imported.module)), dict(imported.tensors))
    rng = np.random.default_rng(9)
    programs = [oi.Simulator(graph, package), oi.compile(graph, package)]
    for shape in ((2, 3), (1, 5), (3, 1)):
        given = {
            name: rng.standard_normal((*shape, WIDTH), dtype=np.float32)
            for name in ("query", "passage", "other")
        }
        want = before.make_executor().run(**given)["score"]
        np.testing.assert_array_equal(programs[0].make_executor().run(**given)["score"], want)
        np.testing.assert_allclose(
            programs[1].make_executor().run(**given)["score"], want, atol=2e-6
        )
    whole, _, unrolled = readable(imported, roll=False)
    assert "branch" not in str(whole)
    assert report.lines < unrolled.lines


def test_modules_of_other_weights_are_no_block() -> None:
    graph, _, _ = readable(two_towers("first", "second", "third"))
    assert "branch" not in str(graph)


def test_a_call_means_what_the_block_does() -> None:
    called = """
    dynamic { a: f32[4]; b: f32[4]; }
    block entry {
        assign x: f32[4]; assign y: f32[4]; assign z: f32[4];
        transfer a >> x; branch f; transfer y >> z;
        transfer b >> x; branch f;
        r = op sub(z, y);
        return r;
    }
    block f { op exp(x) >> y; return; }
    """
    inline = """
    dynamic { a: f32[4]; b: f32[4]; }
    block entry {
        assign c: f32[4]; assign d: f32[4];
        op exp(a) >> c; op exp(b) >> d; r = op sub(c, d);
        return r;
    }
    """
    first, second, turned = (
        oi.graph(text).module for text in (called, inline, inline.replace("sub(c, d)", "sub(d, c)"))
    )
    assert same_program(first, second)
    assert not same_program(first, turned)
