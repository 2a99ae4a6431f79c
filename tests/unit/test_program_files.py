"""Files of compiled programs that are damaged, hostile, or none: each is refused, and says why."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from saved_programs import TEXT, write_model

import openinfer as oi
from openinfer.runtime.program import Program
from openinfer.runtime.program_file import (
    INFO,
    LIMITS,
    MANIFEST,
    NAMES,
    OUTLINE,
    PACKAGE,
    PART,
    WEIGHTS,
    Container,
    Memory,
    Payload,
    container_chunks,
)
from tests.sweeps import sweep


def parts(data: bytes) -> dict[tuple[int, int], bytes]:
    container = Container(Memory(data))
    return {key: container.read(*key) for key in container.sections}


def rebuilt(sections: Mapping[tuple[int, int], bytes]) -> bytes:
    """A file with these sections and right checksums."""
    return b"".join(container_chunks({key: Payload.of(data) for key, data in sections.items()}))


@pytest.fixture
def saved(tmp_path: Path) -> bytes:
    program = oi.compile(oi.graph(TEXT), write_model(tmp_path / "m.oinf"))
    program.save(tmp_path / "saved.oip", observed=True, traced=True, embed_weights=True)
    return (tmp_path / "saved.oip").read_bytes()


@pytest.fixture
def load(tmp_path: Path) -> Callable[[bytes], Program]:
    def write(data: bytes) -> Program:
        path = tmp_path / "hostile.oip"
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        return oi.load(path)

    return write


def test_damage_is_found(saved: bytes, load: Callable[[bytes], Program]) -> None:
    assert rebuilt(parts(saved)) == saved
    load(saved)
    weights = Container(Memory(saved)).sections[WEIGHTS, 0]
    for cut in (0, 1, 7, 40, 87, 100, 600, len(saved) // 2, len(saved) - 1):
        with pytest.raises(oi.ArtefactError):
            load(saved[:cut])
    with pytest.raises(oi.ArtefactError, match="should have"):
        load(saved + b"\0")
    chance = np.random.default_rng(0)
    drawn = chance.integers(600, weights.offset, sweep(60, 300))
    places = [*range(0, 600, sweep(7, 3)), *drawn.tolist()]
    for place in places:
        changed = bytearray(saved)
        changed[place] ^= 1 << int(chance.integers(8))
        with pytest.raises(oi.ArtefactError) as caught:
            load(bytes(changed))
        assert caught.value.code in ("OI0802", "OI0803")
        assert "hostile.oip" in caught.value.message


def resigned(data: bytes, offset: int, layout: str, value: Any) -> bytes:
    """The file with a number of header or table changed and the checksum of both made right."""
    changed = bytearray(data)
    struct.pack_into(layout, changed, offset, value)
    (count,) = struct.unpack_from("<I", changed, 40)
    table = changed[88 : 88 + 56 * min(count, 300)]
    changed[56:88] = hashlib.sha256(bytes(changed[:56]) + bytes(table)).digest()
    return bytes(changed)


@pytest.mark.parametrize(
    ("offset", "layout", "value", "message"),
    [
        (40, "<I", 0, "ends at"),
        (40, "<I", 1, "there is something between|lies at|ends at"),
        (40, "<I", 0xFFFFFFFF, "at most 256"),
        (40, "<I", 256, "inside of its table|differs from its checksum|lies at"),
        (44, "<I", 1, "its table has"),
        (48, "<Q", 1 << 60, "should have 1152921504606846976 bytes"),
        (88, "<I", 0, "section 0.0 is unknown"),
        (88, "<I", 99, "section 99.0 is unknown"),
        (88, "<I", 5, "out of order"),
        (92, "<I", 7, "has no info 0"),
        (96, "<Q", 0, "the info lies at 0"),
        (96, "<Q", (1 << 64) - 64, "the info lies at 18446744073709551552"),
        (104, "<Q", LIMITS[INFO] + 1, "more than 67108864"),
        (104, "<Q", 1 << 20, "the info lies at"),
        (144, "<I", 1, "section 1.0 is unknown, or out of order"),
        (144 + 16, "<Q", 10, "manifest lies at|something between"),
    ],
)
def test_each_number_of_the_table_is_checked(
    saved: bytes,
    load: Callable[[bytes], Program],
    offset: int,
    layout: str,
    value: int,
    message: str,
) -> None:
    with pytest.raises(oi.ArtefactError, match=message) as caught:
        load(resigned(saved, offset, layout, value))
    assert caught.value.code == "OI0802"
    assert caught.value.hint


def test_other_versions_are_named(saved: bytes, load: Callable[[bytes], Program]) -> None:
    with pytest.raises(oi.ArtefactError, match="by another version of openinfer") as caught:
        load(b"OIPROG\0\1" + bytes(100))
    assert caught.value.code == "OI0803"
    earlier = bytearray(saved)
    earlier[7] = 2
    with pytest.raises(
        oi.ArtefactError, match=f"openinfer {oi.__version__}, whose files"
    ) as caught:
        load(bytes(earlier))
    assert caught.value.code == "OI0803"
    later = bytearray(saved)
    later[7], later[8:40] = 4, b"9.8.7\x1b[31m".ljust(32, b"\0")
    with pytest.raises(oi.ArtefactError, match=r"openinfer 9\.8\.7\?\[31m, whose files") as caught:
        load(bytes(later))
    assert f"openinfer {oi.__version__} cannot read" in caught.value.message
    sections = parts(saved)
    manifest = json.loads(sections[MANIFEST, 0])
    sections[MANIFEST, 0] = json.dumps({**manifest, "format": 99}).encode()
    with pytest.raises(oi.ArtefactError, match=f"openinfer {oi.__version__}") as caught:
        load(rebuilt(sections))
    assert caught.value.code == "OI0803"


def test_files_that_are_no_programs(tmp_path: Path, load: Callable[[bytes], Program]) -> None:
    for data in (b"hello", b"\x7fELF" + bytes(200), b"OINF\0" + bytes(100)):
        with pytest.raises(oi.ArtefactError, match="no compiled program: it starts with"):
            load(data)
    with pytest.raises(oi.ArtefactError, match="absent") as caught:
        oi.load(tmp_path / "absent")
    assert caught.value.code == "OI0801"
    for path in (tmp_path, tmp_path / "empty", tmp_path / "nul\0"):
        (tmp_path / "empty").touch()
        with pytest.raises(oi.ArtefactError) as caught:
            oi.load(path)
        assert caught.value.code == "OI0801"
    with pytest.raises(oi.InputError, match="is a NoneType"):
        oi.load(None)  # pyright: ignore[reportArgumentType]


def changed_json(
    sections: dict[tuple[int, int], bytes], key: tuple[int, int], **rows: Any
) -> bytes:
    data = json.loads(sections[key])
    return rebuilt({**sections, key: json.dumps({**data, **rows}).encode()})


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"builds": []}, "it has no build"),
        ({"builds": [{"kind": "observed", "parts": []}]}, "build 0 belongs to no plain one"),
        ({"builds": [{"kind": "fast", "parts": []}]}, "build 0 is of the unknown kind 'fast'"),
        ({"builds": [{"kind": "plain", "parts": ["host"]}] * 9}, "it has no manifest 3"),
        ({"builds": [{"kind": "plain", "parts": ["a"] * 2}]}, "build 0 has two parts of one name"),
        ({"builds": [{"kind": "plain", "parts": [f"p{n}" for n in range(99)]}]}, "it has no part "),
        ({"builds": [{"kind": "plain"}]}, r"info: builds\[0\].parts is missing"),
        ({"builds": [{}]}, r"info: builds\[0\].kind is missing"),
        ({"builds": 3}, "info: builds is 3, not a list"),
        ({"more": 3}, "info: more is unknown"),
        ({"source": {"file": 1, "form": "oi"}}, "info: source.file is 1, not a text"),
    ],
)
def test_the_list_of_builds_is_checked(
    saved: bytes, load: Callable[[bytes], Program], rows: dict[str, Any], message: str
) -> None:
    with pytest.raises(oi.ArtefactError, match=message):
        load(changed_json(parts(saved), (INFO, 0), **rows))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"variables": 1}, "variables is 1, not a list"),
        ({"variables": [{"name": "x"}]}, r"variables\[0\].memory is missing"),
        ({"arena": "8*(N"}, "bad size expression"),
        ({"arena": "(" * 100_000}, "recursion"),
        ({"weights": [{"variable": "W", "sources": [], "nbytes": 4}]}, "no source"),
        ({"weights": [{"variable": "Q", "sources": ["W"], "nbytes": 4}]}, "no variable"),
        ({"frame": [{"kind": "weight", "number": 99}]}, "weight 99 is not there"),
        ({"frame": [{"kind": "weight", "name": "x"}]}, "a slot weight has a name"),
        ({"frame": [{"kind": "input"}]}, "a slot input has no name"),
        ({"frame": [{"kind": "input", "name": "nothing"}]}, "input nothing is no variable"),
        ({"frame": [{"kind": "extent", "name": "x", "number": 9}]}, "x has no axis 9"),
        ({"frame": [{"kind": "flag"}]}, r"frame\[0\].kind is 'flag', not one of input, held"),
        ({"frame": ["weight 0"]}, r"frame\[0\] is 'weight 0', not an object"),
        ({"outputs": ["nothing"]}, "output nothing is no variable"),
        ({"sizes": {"D": 4.5}}, "sizes.D is 4.5, not an integer"),
        ({"sizes": {"D": True}}, "sizes.D is True, not an integer"),
        ({"nodes": [{}]}, r"nodes\[0\].block is missing"),
        ({"surprise": 1}, "surprise is unknown"),
    ],
)
def test_the_manifest_is_checked(
    saved: bytes, load: Callable[[bytes], Program], rows: dict[str, Any], message: str
) -> None:
    with pytest.raises(oi.ArtefactError, match=message) as caught:
        load(changed_json(parts(saved), (MANIFEST, 0), **rows))
    assert caught.value.code == "OI0803"


def test_text_that_is_no_json(saved: bytes, load: Callable[[bytes], Program]) -> None:
    for key in ((INFO, 0), (MANIFEST, 0), (OUTLINE, 0)):
        for text in (b"", b"[]", b"null", b"{", b"\xff", b"[" * 100_000, b'{"a": 1}'):
            with pytest.raises(oi.ArtefactError):
                load(rebuilt({**parts(saved), key: text}))


def test_the_outline_is_checked(saved: bytes, load: Callable[[bytes], Program]) -> None:
    sections = parts(saved)
    nodes = json.loads(sections[OUTLINE, 0])["nodes"]
    inside = next(i for i, node in enumerate(nodes) if node["loops"])
    for change in ({"index": 7}, {"loops": [inside]}, {"loops": [-1]}):
        changed = [*nodes]
        changed[inside] = {**nodes[inside], **change}
        with pytest.raises(oi.ArtefactError, match=f"node {inside} of its outline"):
            load(changed_json(sections, (OUTLINE, 0), nodes=changed))


def test_code_that_is_none(saved: bytes, load: Callable[[bytes], Program]) -> None:
    loaded = load(rebuilt({**parts(saved), (PART, 0): b"no code"}))
    with pytest.raises(oi.ArtefactError, match="not an ELF object") as caught:
        loaded.make_executor()
    assert caught.value.code == "OI0840"


def changed_package(
    sections: dict[tuple[int, int], bytes], change: Callable[[dict[str, Any]], object]
) -> bytes:
    """The file with its package's description changed, payloads where they were."""
    data = sections[PACKAGE, 0]
    length = int.from_bytes(data[:8], "little")
    payloads = data[8 + length + -length % 8 :]
    rows = json.loads(data[8 : 8 + length])
    change(rows)
    text = json.dumps(rows).encode()
    head = len(text).to_bytes(8, "little") + text
    return rebuilt({**sections, (PACKAGE, 0): head + bytes(-len(head) % 8) + payloads})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p["tensors"][0].update(offset=1 << 40), "'V.0' lies at 1099511627776"),
        (lambda p: p["tensors"][0].update(offset=-64), "'V.0' lies at -64"),
        (lambda p: p["tensors"][0].update(offset=4), "'V.0' lies at 4"),
        (lambda p: p["tensors"][0].update(nbytes=60), "60 bytes, which do not fit its shape"),
        (lambda p: p["tensors"][0].update(dtype="f33"), "unknown dtype 'f33'"),
        (lambda p: p["tensors"][0].update(shape=[-4, -4]), "negative dims"),
        (lambda p: p["tensors"][0].update(shape=[0, 1 << 63]), r"more than 2\*\*63 bytes"),
        (lambda p: p["tensors"][0].update(shape=[1] * 65), "65 dimensions"),
        (lambda p: p["tensors"][0].update(name="W"), "a name occurs twice"),
        (lambda p: p["tensors"][2].update(quant_offset=1 << 30), "record of tensor 'W'"),
        (lambda p: p["tensors"][2].update(quant_offset=0), "'W': quant"),
        (lambda p: p["metadata"][0].update(offset=1 << 50), "metadata 'k' lies at"),
        (lambda p: p["metadata"][0].update(nbytes=-8), "metadata 'k' lies at"),
        (lambda p: p["metadata"][0].update(kind=99), "value_type has the unknown id 99"),
        (lambda p: p["metadata"][0].update(kind=14), "'k': value_nbytes"),
        (lambda p: p["metadata"][0].update(name="s"), "a name occurs twice"),
        (lambda p: p["sizes"].update(D=-1), "size D is -1"),
        (lambda p: p.update(header_hash=3), "header_hash is 3, not a text"),
        (lambda p: p.pop("path"), "path is missing"),
    ],
)
def test_the_embedded_package_is_checked(
    saved: bytes,
    load: Callable[[bytes], Program],
    change: Callable[[dict[str, Any]], object],
    message: str,
) -> None:
    load(changed_package(parts(saved), lambda rows: None))
    with pytest.raises(oi.ArtefactError, match=message) as caught:
        load(changed_package(parts(saved), change))
    assert caught.value.code == "OI0802"


def test_an_embedded_package_must_be_the_programs(
    saved: bytes, load: Callable[[bytes], Program]
) -> None:
    def other(rows: dict[str, Any]) -> None:
        rows["header_hash"] = "0" * 64

    with pytest.raises(oi.ArtefactError, match="has other tensors"):
        load(changed_package(parts(saved), other)).make_executor()
    sections = parts(saved)
    del sections[WEIGHTS, 0]
    with pytest.raises(oi.ArtefactError, match="a package without weights"):
        load(rebuilt(sections))
    short = {**parts(saved), (PACKAGE, 0): (1 << 40).to_bytes(8, "little")}
    with pytest.raises(oi.ArtefactError, match="description has 1099511627776 bytes"):
        load(rebuilt(short))


def test_random_changes_with_right_checksums(
    saved: bytes, load: Callable[[bytes], Program]
) -> None:
    """Text sections changed at random: refused with our errors, or another valid file."""
    chance = np.random.default_rng(5)
    sections = parts(saved)
    for _ in range(150):
        kind = [INFO, MANIFEST, OUTLINE, PACKAGE][int(chance.integers(4))]
        changed = bytearray(sections[kind, 0])
        for _ in range(int(chance.integers(1, 4))):
            changed[int(chance.integers(len(changed)))] = int(chance.integers(32, 127))
        try:
            loaded = load(rebuilt({**sections, (kind, 0): bytes(changed)}))
            if loaded.package is not None:
                dict(loaded.package.metadata)
        except oi.OpenInferError:
            pass


def test_sections_have_names() -> None:
    assert NAMES.keys() == LIMITS.keys()
