"""What occurs in several places of an imported model becomes a block with parameters, by both readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.frontend import parse_text
from openinfer.compiler.frontend.layout import formatted
from openinfer.compiler.frontend.printer import print_program
from openinfer.compiler.importers.graph_writer import GraphWriter, Imported, Value
from openinfer.compiler.importers.program_text import reads_as
from openinfer.compiler.importers.readable import readable
from openinfer.dialects.graph import OpOp
from openinfer.lowering.graph.imports.meaning import same_program
from openinfer.lowering.graph.imports.provenance import Provenance


class Net:
    """Writes a network of convolutions as a reader of a foreign model does."""

    def __init__(self, *inputs: str) -> None:
        self.rng = np.random.default_rng(4)
        self.g = GraphWriter(reserved=[*(inputs or "x"), "y"])
        self.x = [self.g.input(name, "f32", ["B", 4, "H", "W"]) for name in inputs or "x"]

    def weight(self, name: str, *shape: int) -> Value:
        array = self.rng.random(shape, dtype=np.float32) / 4
        return self.g.weight(name, array, "f32", shape)

    def conv(
        self, h: Value, conv: str, bn: str, width: int, kernel: int = 3, **settings: Any
    ) -> Value:
        with self.g.at(Provenance(conv, "Conv2d")):
            shape = (width, h.dims[1].constant or 0, kernel, kernel)
            given = {"padding": kernel // 2, **settings}
            h = self.g.op("conv2d", h, self.weight(f"{conv}.weight", *shape), **given)
        with self.g.at(Provenance(bn, "BatchNorm2d")):
            names = ("running_mean", "running_var", "weight", "bias")
            return self.g.op("batch_norm", h, *(self.weight(f"{bn}.{n}", width) for n in names))

    def block(self, h: Value, path: str, width: int, stride: int = 1, act: str = "relu") -> Value:
        inner = self.conv(h, f"{path}.conv1", f"{path}.bn1", width, stride=stride)
        with self.g.at(Provenance(f"{path}.act", "Act")):
            inner = self.g.op(act, inner)
        inner = self.conv(inner, f"{path}.conv2", f"{path}.bn2", width)
        if stride > 1:
            names = (f"{path}.downsample.0", f"{path}.downsample.1")
            h = self.conv(h, *names, width, 1, stride=stride)
        with self.g.at(Provenance(path, "BasicBlock", "out")):
            return self.g.op("relu", self.g.op("add", inner, h))

    def finish(self, y: Value) -> Imported:
        return self.g.finish([("y", y)], source="net")


def stages() -> Imported:
    net = Net()
    h = net.conv(net.x[0], "stem.0", "stem.1", 4)
    for stage in range(4):
        for i in range(2):
            stride = 2 if stage and not i else 1
            h = net.block(h, f"layer{stage + 1}.{i}", 4 + 2 * stage, stride)
    return net.finish(h)


def acts_differ() -> Imported:
    """Two blocks are alike, and two of another activation: they share what is smaller."""
    net = Net()
    h = net.x[0]
    for i, act in enumerate(("relu", "tanh", "relu", "tanh")):
        h = net.block(h, f"part{'abcd'[i]}", 4, act=act)
    return net.finish(h)


def inner_values_are_read() -> Imported:
    """Each stage gives its last value and one of those inside."""
    net = Net()
    h, inside = net.x[0], []
    for i in range(3):
        a = net.conv(h, f"s{i}.conv1", f"s{i}.bn1", 4)
        h = net.conv(net.g.op("tanh", a), f"s{i}.conv2", f"s{i}.bn2", 4)
        inside.append(a)
    for one in inside:
        h = net.g.op("add", h, one)
    return net.finish(h)


def in_loops() -> Imported:
    """Two stages that are rolled, and blocks before them."""
    net = Net()
    h = net.x[0]
    for stage in range(2):
        for i in range(5):
            h = net.block(h, f"layer{stage + 1}.{i}", 4 + 2 * stage, 2 if stage and not i else 1)
    return net.finish(h)


def two_inputs() -> Imported:
    """Blocks that take two values."""
    net = Net("a", "b")
    h, other = net.x
    for i in range(5):
        left = net.conv(h, f"join{'abcde'[i]}.left", f"join{'abcde'[i]}.bn1", 4)
        with net.g.at(Provenance(f"join{'abcde'[i]}", "Join")):
            left = net.g.op("relu", net.g.op("mul", left, other))
        other, h = h, left
    return net.finish(net.g.op("add", h, other))


def run(program: Any, inputs: tuple[str, ...], size: tuple[int, int, int]) -> Any:
    b, h, w = size
    rng = np.random.default_rng(9)
    given = {name: rng.standard_normal((b, 4, h, w), dtype=np.float32) for name in inputs}
    return program.make_executor().run(**given)["y"]


@pytest.mark.parametrize(
    ("make", "blocks", "most"),
    [
        (stages, ["conv_bn", "basic_block", "basic_block_downsample"], 56),
        (acts_differ, ["conv_bn"], 45),
        (inner_values_are_read, ["conv_bn"], 36),
        (in_loops, ["conv_bn"], 50),
        (two_inputs, ["join"], 35),
    ],
)
def test_blocks_compute_what_was_imported(
    make: Callable[[], Imported], blocks: list[str], most: int
) -> None:
    imported = make()
    inputs = ("a", "b") if make is two_inputs else ("x",)
    graph, package, report = readable(imported)
    text = str(graph)
    heads = [line.split()[1] for line in text.splitlines() if line.startswith("block ")]
    assert [head.partition("(")[0] for head in heads] == [*blocks, "entry"]
    assert report.lines == text.count("\n") <= most
    assert formatted(text, "net.oi") == text
    assert str(readable(make())[0]) == text, "the same model gives another text"
    plain, plain_package, before = readable(imported, roll=False, comments=True)
    assert "branch" not in str(plain)
    assert before.lines > report.lines
    # What runs is the same, op by op, so it costs the same.
    if "loop " not in text:
        ops, others = (
            Counter(op.op_name.data for op in one.module.walk() if isinstance(op, OpOp))
            for one in (graph, plain)
        )
        assert ops == others
    assert set(package.tensors) == set(plain_package.tensors)
    first = oi.Simulator(oi.graph(print_program(imported.module)), dict(imported.tensors))
    after = oi.Simulator(graph, package)
    compiled = oi.compile(graph, package) if make is acts_differ else None
    for size in ((2, 8, 8), (1, 5, 9)):
        want = run(first, inputs, size)
        np.testing.assert_array_equal(run(after, inputs, size), want)
        if compiled is not None:
            found = run(compiled, inputs, size)
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6 * np.abs(want).max())


def test_the_text_reads_well() -> None:
    text = str(readable(stages())[0])
    body = text.partition("block basic_block(")[2].partition("\n}\n")[0]
    assert body.splitlines() == [
        "h, path) {",
        '    y = branch conv_bn(h, "{path}.conv1", "{path}.bn1");',
        '    y = branch conv_bn(relu(y), "{path}.conv2", "{path}.bn2");',
        "    y = op relu(add(y, h));",
        "    return y;",
    ]
    assert '    layer2 = branch basic_block_downsample(stem, "layer2.0");\n' in text
    assert "block conv_bn(h, conv, bn, stride=1, padding=1) {" in text
    assert '        bn_mean: f32[_] @ref("{bn}.running_mean");\n' in text
    said = str(readable(stages(), comments=True)[0])
    assert "    // layer1.1 (BasicBlock)\n" in said
    assert parse_text(said).module is not None


def test_a_text_with_blocks_is_read_as_it_was_written() -> None:
    imported = stages()
    graph, package, _ = readable(imported)
    text = str(graph)
    assert same_program(graph.module, oi.graph(text).module)
    assert reads_as(imported.module, text, package)
    changed = text.replace('basic_block(layer3, "', 'basic_block(layer2, "')
    assert changed != text
    assert not reads_as(imported.module, changed, package)


def test_what_saves_little_is_no_block() -> None:
    net = Net()
    h = net.conv(net.x[0], "a.conv", "a.bn", 4)
    h = net.conv(net.g.op("tanh", h), "b.conv", "b.bn", 4)
    assert "branch" not in str(readable(net.finish(h))[0])


def test_both_readers_give_the_same_blocks() -> None:
    torch: Any = pytest.importorskip("torch", reason="needs PyTorch: scripts/install-extras.sh")
    onnx: Any = pytest.importorskip("onnx", reason="needs onnx: scripts/install-extras.sh")
    from openinfer.compiler.importers.onnx.reader import read_model
    from openinfer.compiler.importers.torch.export import import_module

    class Gate(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.norm = torch.nn.Linear(6, 6), torch.nn.LayerNorm(6)

        def forward(self, x: Any) -> Any:
            return torch.sigmoid(self.norm(self.up(x))) * x

    class Gates(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.third, self.last = (Gate() for _ in range(4))

        def forward(self, x: Any) -> Any:
            x = torch.relu(self.second(self.first(x)))
            return self.last(torch.tanh(self.third(x)))

    def as_onnx(module: Any) -> Any:
        """The same, with names of nodes as PyTorch's older exporter gives them."""
        make, names = onnx.helper, iter(("first", "second", "relu", "third", "tanh", "last"))
        nodes: list[Any] = []
        h = "x"
        for name in names:
            if name in ("relu", "tanh"):
                nodes.append(make.make_node(name.capitalize(), [h], [name], f"/{name}/Act"))
            else:
                one = [f"{name}.{part}" for part in ("up", "norm", "gate", "out")]
                w, b, s, t = (
                    f"{name}.{p}" for p in ("up.weight", "up.bias", "norm.weight", "norm.bias")
                )
                nodes += [
                    make.make_node("Gemm", [h, w, b], [one[0]], f"/{name}/up/Gemm", transB=1),
                    make.make_node(
                        "LayerNormalization", [one[0], s, t], [one[1]], f"/{name}/norm/LayerNorm"
                    ),
                    make.make_node("Sigmoid", [one[1]], [one[2]], f"/{name}/Sigmoid"),
                    make.make_node("Mul", [one[2], h], [name], f"/{name}/Mul"),
                ]
            h = name
        kept = [onnx.numpy_helper.from_array(v.numpy(), n) for n, v in module.state_dict().items()]
        ends = [make.make_tensor_value_info(n, 1, ["B", 6]) for n in ("x", h)]
        made = make.make_graph(nodes, "gates", ends[:1], ends[1:], kept)
        return make.make_model(made, opset_imports=[make.make_opsetid("", 18)])

    torch.manual_seed(0)
    module = Gates().eval()
    x = torch.randn(3, 6)
    ways = [
        import_module(module, (x,), {"x": ("B", None)}),
        read_model(as_onnx(module).SerializeToString()).imported,
    ]
    for imported, name in zip(ways, ("gate", "linear_norm_sigmoid")):
        graph, package, _ = readable(imported)
        assert str(graph).count(f"branch {name}(") == 4
        (found,) = oi.Simulator(graph, package).make_executor().run(x=x.numpy()).values()
        np.testing.assert_allclose(found, module(x).detach().numpy(), rtol=1e-5, atol=1e-6)
