"""`openinfer.onnx` in the place of `onnxruntime`: scripts that run on both, and what a session refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer import onnx as ort

onnx = pytest.importorskip("onnx", reason="the extra `import`")

SCRIPT = """
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
options.intra_op_num_threads = 1
options.log_severity_level = 3
options.add_session_config_entry("session.intra_op.allow_spinning", "0")
session = ort.InferenceSession(path, sess_options=options, providers=["CPUExecutionProvider"])
meta = session.get_modelmeta()
found["model"] = (meta.producer_name, meta.graph_name, meta.domain, meta.description, meta.version)
found["more"] = (meta.graph_description, meta.custom_metadata_map)
found["providers"] = session.get_providers(), list(session.get_provider_options())
found["available"] = "CPUExecutionProvider" in ort.get_available_providers(), ort.get_device()
found["threads"] = session.get_session_options().intra_op_num_threads
for get in (session.get_inputs, session.get_outputs, session.get_overridable_initializers):
    found[get.__name__] = [(one.name, one.shape, one.type) for one in get()]
name = session.get_inputs()[0].name
feeds = {name: x, "scale": np.array(2, np.float64), "on": np.array([True, False, True])}
found["all"] = session.run(None, feeds)
found["one"] = session.run([session.get_outputs()[1].name], feeds, ort.RunOptions())
found["none"] = len(session.run([], feeds))
"""
MODEL = """
<ir_version: 9, opset_import: ["" : 18], producer_name: "hand", model_version: 3, domain: "own",
 doc_string: "A layer.">
net (float[batch, 4] x, double scale, bool[3] on) => (float[batch, 3] y, int64[batch] best)
<float[4, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}> {
    h = MatMul(x, w)
    s = Cast<to = 1>(scale)
    m = Mul(h, s)
    zero = Constant<value_float = 0.0>()
    y = Where(on, m, zero)
    best = ArgMax<axis = 1, keepdims = 0>(y)
}
"""
X = np.random.default_rng(0).standard_normal((5, 4), dtype=np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = onnx.parser.parse_model(MODEL)
    onnx.helper.set_model_props(model, {"author": "me"})
    file = tmp_path_factory.mktemp("session") / "net.onnx"
    onnx.save(model, file)
    return file


def results_of(library: Any, path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    exec(SCRIPT, {"ort": library, "path": path, "x": X, "np": np, "found": found})
    return found


def test_a_script_of_onnx_runtime_runs_unchanged(path: Path) -> None:
    theirs = results_of(pytest.importorskip("onnxruntime", reason="make oracle"), path)
    ours = results_of(ort, path)
    assert ours.keys() == theirs.keys()
    for key, want in theirs.items():
        if key in ("all", "one"):
            for one, other in zip(ours[key], want, strict=True):
                assert (one.dtype, one.shape) == (other.dtype, other.shape)
                np.testing.assert_allclose(one, other, rtol=1e-6)
        else:
            assert ours[key] == want, key


def test_what_is_wrong_with_a_feed(path: Path) -> None:
    session = ort.InferenceSession(path)
    feeds = {"x": X, "scale": np.float64(1), "on": np.ones(3, bool)}
    with pytest.raises(oi.InputError, match=r"OI1529.*no output 'z'"):
        session.run(["z"], feeds)
    with pytest.raises(oi.InputError, match=r"OI1529.*no input 'z'"):
        session.run(None, {**feeds, "z": X})
    with pytest.raises(oi.InputError, match=r"OI1529.*inputs scale, on are missing"):
        session.run(None, {"x": X})


def test_providers(path: Path) -> None:
    given = ["CUDAExecutionProvider", ("CPUExecutionProvider", {})]
    assert ort.InferenceSession(path, None, given).get_providers() == ["CPUExecutionProvider"]
    with pytest.raises(oi.InputError, match=r"OI1529.*no provider of CUDA.*\n.*there are CPU"):
        ort.InferenceSession(path, providers=["CUDAExecutionProvider"])
    with pytest.raises(oi.InputError, match=r"OI1529.*2 options for 1 providers"):
        ort.InferenceSession(path, None, ["CPUExecutionProvider"], [{}, {}])
    with pytest.raises(oi.UnsupportedError, match=r"OI1530.*options of CPU.*: arena"):
        ort.InferenceSession(path, None, ["CPUExecutionProvider"], [{"arena": "1"}])


def test_what_a_session_does_not_do(path: Path) -> None:
    session = ort.InferenceSession(path)
    for refused in (session.io_binding, session.end_profiling):
        with pytest.raises(oi.UnsupportedError, match="OI1530"):
            refused()
    with pytest.raises(oi.UnsupportedError, match=r"(?s)OI1530.*give arrays to run"):
        session.run_with_ort_values(None, {})
    options = ort.SessionOptions()
    options.optimized_model_filepath = "out.onnx"
    with pytest.raises(oi.UnsupportedError, match=r"(?s)OI1530.*openinfer import"):
        ort.InferenceSession(path, options)
    options = ort.SessionOptions(enable_profiling=True)
    with pytest.raises(oi.UnsupportedError, match=r"(?s)OI1530.*openinfer trace"):
        ort.InferenceSession(path, options)
    with pytest.raises(AttributeError):
        setattr(options, "intra_op_threads", 2)  # noqa: B010
    with pytest.raises(oi.InputError, match=r"OI1529.*no entry 'key'"):
        options.get_session_config_entry("key")
