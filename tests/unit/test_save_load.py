"""Compiled programs in files: what travels, and that the compiler is not needed to run them."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from saved_programs import TEXT, agree, inputs, tensors, two_steps, write_model

import openinfer as oi
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.devices.cpu.support import check_target, obstacle
from openinfer.runtime.manifest import Manifest
from openinfer.runtime.outline import Outline
from openinfer.runtime.packages.embedded import EmbeddedPackage
from openinfer.runtime.program import Program
from openinfer.runtime.rows import plain_data, row_of
from openinfer.runtime.target import TARGETS


@pytest.fixture
def model(tmp_path: Path) -> oi.Package:
    return write_model(tmp_path / "m.oinf")


@pytest.fixture
def program(model: oi.Package) -> Program:
    return oi.compile(oi.graph(TEXT), model)


# What travels


def test_the_program_is_the_same(program: Program, tmp_path: Path) -> None:
    program.save(tmp_path / "p.oip")
    loaded = oi.load(tmp_path / "p.oip")
    assert loaded.manifest == program.manifest
    assert loaded.source == program.source
    assert loaded.source is not None
    assert loaded.source.text == TEXT
    assert loaded.source.line(6) == "  op matmul(x, W) >> y;"
    agree(loaded, program)


def test_the_same_program_gives_the_same_bytes(program: Program, tmp_path: Path) -> None:
    for options in ({}, {"observed": True}, {"embed_weights": True}):
        first, second, again = (tmp_path / name for name in "abc")
        program.save(first, **options)
        program.save(second, **options)
        assert first.read_bytes() == second.read_bytes()
        oi.load(first).save(again, **options)
        if "embed_weights" not in options:
            assert again.read_bytes() == first.read_bytes()


def test_an_embedded_package_is_embedded_again(program: Program, tmp_path: Path) -> None:
    program.save(tmp_path / "a.oip", embed_weights=True)
    oi.load(tmp_path / "a.oip").save(tmp_path / "b.oip", embed_weights=True)
    agree(oi.load(tmp_path / "b.oip"), program)


def test_writing_is_whole_or_not_at_all(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "p.oip"
    program.save(path)
    before = path.read_bytes()
    loaded = Program(program.manifest, program.parts)
    with pytest.raises(oi.UnsupportedError):
        loaded.save(path, observed=True)
    with pytest.raises(oi.ArtefactError, match="needs the model package"):
        loaded.save(path, embed_weights=True)
    with pytest.raises(oi.ArtefactError, match="cannot be written") as caught:
        program.save(tmp_path / "absent" / "p.oip")
    assert caught.value.code == "OI0801"
    assert path.read_bytes() == before
    assert not list(tmp_path.glob(".*"))
    program.save(path)
    with pytest.raises(oi.InputError, match="is a int, not a text"):
        program.save(3)  # pyright: ignore[reportArgumentType]


def test_the_package_is_found_where_it_was_and_beside(program: Program, tmp_path: Path) -> None:
    program.save(tmp_path / "p.oip")
    found = oi.load(tmp_path / "p.oip").package
    assert found is not None
    assert found.path == tmp_path / "m.oinf"
    moved = tmp_path / "moved"
    moved.mkdir()
    (tmp_path / "m.oinf").rename(moved / "m.oinf")
    (tmp_path / "p.oip").rename(moved / "p.oip")
    found = oi.load(moved / "p.oip").package
    assert found is not None
    assert found.path == moved / "m.oinf"
    agree(oi.load(moved / "p.oip"), program)


def test_a_package_that_is_missing_or_another(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "p.oip"
    program.save(path)
    (tmp_path / "m.oinf").unlink()
    loaded = oi.load(path)
    with pytest.raises(oi.ArtefactError, match="needs the model package") as caught:
        loaded.make_executor()
    assert caught.value.code == "OI0804"
    other = write_model(tmp_path / "m.oinf", V=np.zeros(1, np.float32))
    with pytest.raises(oi.ArtefactError, match="needs the model package"):
        oi.load(path).make_executor()
    with pytest.raises(oi.ArtefactError, match="has other tensors") as caught:
        oi.load(path, other)
    assert caught.value.code == "OI0805"
    with pytest.raises(oi.InputError, match="model is a str"):
        oi.load(path, "m.oinf")  # pyright: ignore[reportArgumentType]


def test_other_weights_of_the_same_shapes_serve(program: Program, tmp_path: Path) -> None:
    program.save(tmp_path / "p.oip")
    other = write_model(tmp_path / "other.oinf", seed=7)
    loaded = oi.load(tmp_path / "p.oip", other)
    np.testing.assert_array_equal(
        loaded.make_executor().run(**inputs())["g"], tensors(7)["W"][inputs()["rows"]]
    )


def test_a_program_without_weights_needs_no_package(model: oi.Package, tmp_path: Path) -> None:
    text = "dynamic { x: f32[D]; } volatile { y: f32[D]; } block entry { op relu(x) >> y; return; }"
    oi.compile(text, model).save(tmp_path / "p.oip")
    model.path.unlink()
    given = np.array([-1, 0, 1, 2], np.float32)
    loaded = oi.load(tmp_path / "p.oip")
    assert np.asarray(loaded.make_executor().run(x=given)["y"]).tolist() == [0, 0, 1, 2]


# Embedded weights


def test_weights_inside(program: Program, model: oi.Package, tmp_path: Path) -> None:
    expected = two_steps(program)
    program.save(tmp_path / "p.oip", embed_weights=True)
    header, title = model.header_hash(), model.metadata["title"]
    model.path.unlink()
    loaded = oi.load(tmp_path / "p.oip")
    for a, b in zip(two_steps(loaded), expected):
        np.testing.assert_array_equal(a, b)
    package = loaded.package
    assert isinstance(package, EmbeddedPackage)
    assert package.header_hash() == header
    assert package.sizes == {"D": 4}
    assert set(package.tensors) == {"W", "V.0", "V.1"}
    assert package.metadata["title"] == title
    quant = package.tensors["W"].quant
    assert quant is not None
    assert quant.scale.values.tolist() == [1, 2, 3, 4]
    weights = package.read("W")
    assert weights.ctypes.data % 64 == 0
    assert not weights.flags.owndata
    assert not weights.flags.writeable
    assert loaded.loaded().copied_bytes == 64 + 16


def test_embedded_weights_give_way_to_a_package(program: Program, tmp_path: Path) -> None:
    program.save(tmp_path / "p.oip", embed_weights=True)
    other = write_model(tmp_path / "other.oinf", seed=7)
    assert oi.load(tmp_path / "p.oip", other).package is other


def test_bytes_in_memory_take_a_package(
    program: Program, model: oi.Package, tmp_path: Path
) -> None:
    program.save(tmp_path / "p.oip", embed_weights=True)
    agree(Program.from_bytes((tmp_path / "p.oip").read_bytes(), model), program)


def test_packages_of_another_format_are_embedded(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    name = "layer/0 weight"
    save_file({name: np.arange(4, dtype=np.float32)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"D": 4, "act": "relu", "eps": 0.5, "neg": -3}')
    text = (
        f'dynamic {{ x: f32[D]; }} constant {{ w: f32[D] @ref("{name}"); }} '
        "volatile { y: f32[D]; } block entry { op add(x, w) >> y; return; }"
    )
    oi.compile(text, oi.open_model(tmp_path)).save(tmp_path / "p.oip", embed_weights=True)
    (tmp_path / "model.safetensors").unlink()
    loaded = oi.load(tmp_path / "p.oip")
    found = loaded.make_executor().run(x=np.ones(4, np.float32))["y"]
    assert np.asarray(found).tolist() == [1, 2, 3, 4]
    assert loaded.package is not None
    assert loaded.package.metadata["act"] == "relu"


# The watched build


def test_the_watched_build_travels_if_asked(program: Program, tmp_path: Path) -> None:
    program.save(tmp_path / "plain.oip")
    program.save(tmp_path / "watched.oip", observed=True)
    executor = oi.load(tmp_path / "plain.oip").make_executor()
    executor.insert(**inputs())
    with pytest.raises(oi.UnsupportedError, match="saved without the build") as caught:
        list(executor.iterate())
    assert caught.value.code == "OI0731"
    assert "--observed" in str(caught.value.hint)
    loaded = oi.load(tmp_path / "watched.oip")
    seen: list[list[str]] = []
    for each in (program, loaded):
        executor = each.make_executor()
        executor.insert(**inputs())
        seen.append([node.event.description for node in executor.iterate()])
    assert seen[0] == seen[1] != []
    assert loaded.outline() == program.outline() is not None


def test_the_traced_build_travels_if_asked(program: Program, tmp_path: Path) -> None:
    program.save(tmp_path / "plain.oip")
    program.save(tmp_path / "traced.oip", traced=True)
    with pytest.raises(oi.UnsupportedError, match="leaves a trace") as caught:
        oi.load(tmp_path / "plain.oip").make_executor(trace=True)
    assert caught.value.code == "OI0731"
    assert "--traced" in str(caught.value.hint)
    with oi.load(tmp_path / "traced.oip").make_executor(trace=True) as executor:
        executor.run(**inputs())
        assert any("gather" in event.description for event in executor.trace())


def test_outlines_come_back_as_they_were(program: Program) -> None:
    outline = program.outline()
    assert outline is not None
    assert outline.loop_names == {"l"}
    assert row_of(Outline, json.loads(json.dumps(plain_data(outline)))) == outline


# Processors


def test_builds_for_several_processors(model: oi.Package, tmp_path: Path) -> None:
    graph = oi.graph(TEXT)
    order = ["generic", *[name for name in ("avx2", "avx512") if runs_here(TARGETS[name].key)]]
    programs = [oi.compile(graph, model, target=name) for name in order]
    programs[0].alternatives = tuple(programs[1:])
    programs[0].save(tmp_path / "p.oip", embed_weights=True, observed=True)
    loaded = oi.load(tmp_path / "p.oip")
    kinds = [p.manifest.target.partition(";")[0] for p in (loaded, *loaded.alternatives)]
    assert kinds == order[::-1]
    for each in (loaded, *loaded.alternatives):
        executor = each.make_executor()
        np.testing.assert_allclose(
            executor.run(**inputs())["y"],
            programs[0].make_executor().run(**inputs())["y"],
            rtol=1e-5,
            atol=1e-5,
        )
        assert set(each.further_builds) == {"observed"}


def runs_here(key: str) -> bool:
    return obstacle(key, host_target()) is None


def test_code_for_other_processors_is_refused(program: Program) -> None:
    host = host_target()
    kind = TARGETS["avx512"]
    small = TARGETS["avx2"]
    assert obstacle(kind.key, small) == (
        "the program was compiled for avx512, this processor is avx2"
    )
    assert obstacle(small.key, kind) is None
    assert obstacle(host.key, host) is None
    more = f"generic;{host.triple};x;+amx-future,+another,-aes;128"
    assert "a processor with amx-future, another" in str(obstacle(more, host))
    # Whether the system lets user code read the protection keys changes nothing for our code.
    assert obstacle(f"generic;{host.triple};x;+pku-never,-aes;128", host) is not None
    assert obstacle(f"generic;{host.triple};x;+pku,+shstk;128", host) is None
    assert "for aarch64-linux-gnu" in str(obstacle("generic;aarch64-linux-gnu;x;;128", host))
    assert "unknown processor 'vax'" in str(obstacle("vax;a-b-c;x;;128", host))
    for key in ("", ";;;", "avx512"):
        with pytest.raises(oi.ArtefactError, match="unknown processor"):
            check_target(key)
    changed = plain_data(program.manifest) | {"target": more}
    moved = Program(row_of(Manifest, changed), program.parts, program.package)
    with pytest.raises(oi.ArtefactError, match="amx-future") as caught:
        moved.make_executor()
    assert caught.value.code == "OI0806"
    assert "--target" in str(caught.value.hint)


# Without the compiler

ISOLATED = """\
import sys
sys.path.insert(0, {site!r})
import numpy as np, openinfer as oi
program = oi.load({program!r})
executor = program.make_executor()
x = np.ones((2, 4), np.float32)
found = executor.run(x=x, rows=np.array([0, 3]))
executor.insert(x=x, rows=np.array([0, 3]))
nodes = [node.event.description for node in executor.iterate()]
try:
    executor.run(x=x, rows=np.array([0, 7]))
except oi.StepError as error:
    print(error)
names = {{name.partition(".")[0] for name in sys.modules}}
layers = [n for n in ("compiler", "lowering", "dialects") if f"openinfer.{{n}}" in sys.modules]
print(sorted(names & {{"xdsl", "safetensors", "llvmlite"}}), layers, len(nodes) > 5, found["n"])
"""


def site(folder: Path, repository: Path, *libraries: str) -> Path:
    """A folder to import from that holds the runtime alone, and these libraries."""
    package = folder / "openinfer"
    package.mkdir(parents=True)
    (package / "__init__.py").symlink_to(repository / "openinfer" / "__init__.py")
    (package / "runtime").symlink_to(repository / "runtime")
    for name in libraries:
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        home = Path(spec.origin).parent
        for part in (home, home.with_name(f"{name}.libs")):
            if part.exists():
                (folder / part.name).symlink_to(part)
    return folder


def run_alone(script: str) -> subprocess.CompletedProcess[str]:
    """Runs Python without its site-packages, this checkout, and the environment's paths."""
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_only_the_runtime_is_needed(program: Program, tmp_path: Path, repository: Path) -> None:
    path = tmp_path / "p.oip"
    program.save(path, observed=True, embed_weights=True)
    folder = site(tmp_path / "site", repository, "numpy", "llvmlite")
    done = run_alone(ISOLATED.format(site=str(folder), program=str(path)))
    lines = done.stdout.splitlines()
    assert lines[-1:] == ["['llvmlite'] [] True 1"], done.stderr
    assert "op gather(W, rows) >> g: index 7 at position [" in lines[0]
    assert "of the indices is outside 0..4" in lines[0]


def test_without_llvmlite(program: Program, tmp_path: Path, repository: Path) -> None:
    path = tmp_path / "p.oip"
    program.save(path, embed_weights=True)
    folder = site(tmp_path / "site", repository, "numpy")
    script = (
        f"import sys; sys.path.insert(0, {str(folder)!r})\n"
        f"import openinfer as oi; program = oi.load({str(path)!r})\n"
        "print(program.manifest.runtime_sizes)\n"
        "try: program.make_executor()\n"
        "except oi.UnsupportedError as error: print(error)\n"
    )
    done = run_alone(script)
    lines = done.stdout.splitlines()
    assert lines[0] == "['N']", done.stderr
    assert lines[1].startswith("error[OI0781]: llvmlite cannot be imported")
    assert "pip install llvmlite" in lines[2]
