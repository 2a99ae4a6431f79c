"""The tools given files and numbers that make no sense: a code, a fix, an exit code, no traceback."""

from __future__ import annotations

import json
import shlex
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.tools.openinfer import main
from openinfer.compiler.tools.openinfer_opt import main as main_opt
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.packages.oinf_writer import OinfContent

Capture = pytest.CaptureFixture[str]

pytestmark = pytest.mark.skipif(cpu_unavailable_reason() is not None, reason="no cpu device here")

PROGRAM = """\
dynamic { x: f32[B, D]; }
constant { w: f32[D]; }
block entry { assign y: f32[B, D]; op mul(x, w) >> y; return y; }
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs and packages, sound, cut off, empty, of another kind, and folders of their names."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "p.oi").write_text(PROGRAM)
    w = np.ones(4, np.float32)
    oi.write_oinf(OinfContent(sizevars={"D": 4}, tensors={"w": w}), folder / "p.oinf")
    program = oi.compile(oi.graph_file(folder / "p.oi"), oi.open_model(folder / "p.oinf"))
    program.save(folder / "p.oip")
    (folder / "g.json").write_text(oi.graph_file(folder / "p.oi").to_json())
    for suffix in ("oi", "json", "oip", "oinf"):
        (folder / f"empty.{suffix}").touch()
        (folder / f"folder.{suffix}").mkdir()
    for kind in ("oinf", "oip"):
        whole = (folder / f"p.{kind}").read_bytes()
        (folder / f"cut.{kind}").write_bytes(whole[: len(whole) // 2])
        (folder / f"changed.{kind}").write_bytes(bytes([*whole[:20], whole[20] ^ 255, *whole[21:]]))
    files: dict[str, str | bytes] = {
        "binary.oi": b"\xff\xfe\x00",
        "nul.oi": "block entry {\0 return; }",
        "deep.oi": "block entry { assign y: f32[" + "(" * 9999 + "1" + ")" * 9999 + "]; return; }",
        "wide.oi": "volatile { y: f32[" + "9" * 500 + "]; } block entry { return; }",
        "huge.oi": "volatile { y: f32[1000000, 1000000, 1000000]; } block entry { return y; }",
        "half.json": '{"vars":',
        "list.json": "[1, 2]",
        "wrong.json": '{"vars": 3, "blocks": {}}',
        "deep.json": "[" * 99999,
        "nan.json": "NaN",
        "twice.json": '{"vars": {}, "vars": {}, "blocks": {}}',
        "event.json": '[{"kind": "OpExecute", "micros": "x"}]',
        "chrome.json": '{"traceEvents": []}',
        "long.safetensors": struct.pack("<Q", 2**60) + b"{}",
    }
    for name, data in files.items():
        (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder


@pytest.mark.parametrize(
    ("line", "exit_code", "said"),
    [
        ("run absent.oi", 1, "OI0514"),
        ("run folder.oi", 1, "OI0514"),
        ("run folder.oip", 1, "OI0801"),
        ("run empty.oip", 1, "OI0801"),
        ("run cut.oip", 1, "OI0802"),
        ("run changed.oip", 1, "OI0802"),
        ("inspect cut.oip", 1, "OI0802"),
        ("run binary.oi", 1, "not UTF-8 text: byte 0"),
        ("run p.oinf", 1, "is a model package, not a program"),
        ("export p.oip", 1, "is a compiled program, not the text of one"),
        ("compile p.oip", 2, "is compiled already"),
        ("run nul.oi", 1, "OI0101"),
        ("run deep.oi", 1, "OI0106"),
        ("run wide.oi", 1, "OI0104"),
        ("run huge.oi", 1, "OI0305"),
        ("run half.json", 1, "OI0140"),
        ("run deep.json", 1, "OI0140"),
        ("run nan.json", 1, "OI0140"),
        ("run list.json", 1, "OI0141"),
        ("run wrong.json", 1, "OI0141"),
        ("run twice.json", 1, "given twice"),
        ("run p.oi --model empty.oinf", 1, "OI0401"),
        ("run p.oi --model folder.oinf", 1, "OI0401"),
        ("run p.oi --model cut.oinf", 1, "OI0403"),
        ("run p.oi --model p.oip", 1, "OI0402"),
        ("inspect long.safetensors", 1, "OI0409"),
        ("run p.oi --size B=99999999999999999999999", 1, "OI0517"),
        ("run p.oi --size B=-1", 2, "bad size"),
        ("run p.oi --size B=200000000000000", 1, "OI0604"),
        ("run p.oi --size nothing=1", 1, "OI0523"),
        ("run p.oi --threads 99999", 1, "OI0518"),
        ("run p.oi --threads 0", 2, "from 1"),
        ("run p.oi --steps 0", 2, "from 1"),
        ("run p.oi --seed -1", 2, "from 0"),
        ("run p.oi --input x=absent.npy", 1, "OI0522"),
        ("run p.oi --input x=[[1,2],[3]]", 1, "OI0543"),
        ("run p.oi --input x=[[[", 1, "OI0519"),
        ("run p.oi --output y=absent/y.npy", 1, "OI0557"),
        ("run p.oi --trace folder.oi", 1, "OI0554"),
        ("run p.oi --precision f12", 1, "OI0516"),
        ("run p.oi --tuning list.json", 1, "OI0556"),
        ("compile p.oi -o absent/p.oip", 1, "OI0801"),
        ("compile p.oi -o p.oi", 2, "would overwrite"),
        ("compile p.oi --target neon", 1, "OI0710"),
        ("export p.oi -o folder.json", 1, "OI0557"),
        ("export p.oi -o p.txt", 2, "none of .json, .oi and .onnx"),
        ("trace absent.json", 1, "OI0557"),
        ("trace empty.json", 1, "OI0555"),
        ("trace event.json", 1, "OI0555"),
        ("trace chrome.json", 1, "Perfetto"),
        ("trace p.oi --html folder.oi", 1, "OI0557"),
        ("trace p.oi --top 0", 2, "from 1"),
        ("compare p.oi --tolerance -1", 2, "no factor"),
        ("compare p.oi --tolerance nan", 2, "no factor"),
        ("debug p.oi --command bogus", 2, "no command"),
        ("debug p.oi --command 'break if x['", 2, "OI0561"),
        ("pack absent:Model -o m.oinf", 1, "OI0529"),
        ("pack p.oi -o m.oinf", 1, "OI0402"),
        ("pack cut.oinf -o m.oinf", 1, "OI0403"),
        ("pack p.oinf -o folder.oinf", 1, "OI0401"),
        ("tune p.oi -o p.oi", 1, "OI0556"),
        ("tune p.oi --seconds -1", 2, "above 0"),
    ],
)
def test_misuse(
    line: str,
    exit_code: int,
    said: str,
    place: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(place)
    before = sorted(place.rglob("*"))
    assert main(shlex.split(line)) == exit_code
    out, err = capsys.readouterr()
    assert said in err
    assert "Traceback" not in err
    assert "bug of openinfer" not in err
    assert not out or line.startswith("run") or "compare" in line
    assert sorted(place.rglob("*")) == before, "a half-written file stays behind"


@pytest.mark.parametrize(
    ("line", "exit_code", "said"),
    [
        ("absent.oi", 1, "OI0557"),
        ("folder.oi", 1, "OI0557"),
        ("binary.oi", 1, "OI0513"),
        ("half.json", 1, "OI0140"),
        ("p.oinf", 2, "no frontend reads"),
        ("p.oi --pipeline nothing", 2, "known pipelines"),
        ("p.oi --pipeline cpu --to nothing", 2, "known phases"),
        ("p.oi -p nothing", 2, "no pass"),
        ("p.oi --pipeline cpu --model cut.oinf", 1, "OI0403"),
        ("p.oi -o absent/p.mlir", 1, "OI0557"),
        ("p.oi --pipeline cpu --to nn --dump-dir p.oip", 1, "OI0557"),
    ],
)
def test_misuse_of_the_optimiser(
    line: str,
    exit_code: int,
    said: str,
    place: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(place)
    assert main_opt(shlex.split(line)) == exit_code
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err


def test_outputs_are_there_only_when_all_went_well(
    place: Path, tmp_path: Path, capsys: Capture
) -> None:
    """A trace of a run that fails is not written, a good one is whole."""
    program = str(place / "p.oi")
    target = tmp_path / "t.json"
    assert main(["run", program, "--input", "x=1,2,3", "--trace", str(target)]) == 1
    assert not target.exists()
    assert main(["run", program, "--trace", str(target)]) == 0
    assert json.loads(target.read_text())[0]["kind"] == "BlockEnter"
    assert "Traceback" not in capsys.readouterr().err


WITHOUT_XDSL = """\
import importlib.util, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "xdsl":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "xdsl" else found(name, *rest)
from openinfer.compiler.tools.openinfer_opt import main
sys.exit(main([sys.argv[1]]))
"""


def test_the_optimiser_says_what_it_lacks(place: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_XDSL, str(place / "p.oi")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error[OI0734]: compiling and simulating need the library `xdsl`")
