"""Damaged `.pt2` files: their directory, JSON, tensors and pickles, some of them with code that wants to run.

Each is refused with an error of ours that names the file, or read and made readable. Nothing in it runs.
"""

from __future__ import annotations

import copy
import io
import json
import random
import struct
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import openinfer as oi

Parts = dict[str, bytes]
NUMBERS = (0, 1, -1, 2, 3, 7, 64, -2, 1 << 15, 1 << 31, -(1 << 31), 1 << 40, (1 << 63) - 1, 1 << 70)


def prepare() -> None:
    """Makes what all cases share: the files that are damaged."""
    _samples()


@cache
def _samples() -> list[Parts]:
    """Models with open sizes, state, integer inputs, a loop and a branch, as `torch.export` saves them."""
    torch: Any = import_module("torch")
    nn = torch.nn

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(9, 8)
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
            self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

        def forward(self, tokens: Any, mask: Any) -> dict[str, Any]:
            h = self.table(tokens)
            a, _ = self.attention(h, h, h, key_padding_mask=mask, need_weights=False)
            self.steps.add_(1)
            return {"h": h + a[:, : tokens.shape[1]], "steps": self.steps + 1}

    class Control(nn.Module):
        def forward(self, x: Any) -> Any:
            scan = import_module("torch._higher_order_ops.scan").scan
            y = torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos(), (x,))
            total, rows = scan(lambda t, r: (t + r, t * r), torch.zeros(3), y)
            return total, rows.reshape(-1, x.shape[0])

    auto = torch.export.Dim.AUTO
    models = [
        (
            nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2)),
            (torch.randn(4, 3),),
            ({0: auto},),
        ),
        (
            Tokens(),
            (torch.ones(2, 5, dtype=torch.int64), torch.zeros(2, 5, dtype=torch.bool)),
            ({0: auto, 1: auto}, {0: auto, 1: auto}),
        ),
        (Control(), (torch.randn(4, 3),), ({0: auto},)),
        (
            nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()),
            (torch.randn(2, 2, 6, 6),),
            ({0: auto, 2: auto, 3: auto},),
        ),
    ]
    found: list[Parts] = []
    for module, example, shapes in models:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = torch.export.export(module.eval(), example, dynamic_shapes=shapes, strict=False)
            file = io.BytesIO()
            torch.export.save(made, file)
        with zipfile.ZipFile(file) as archive:
            found.append({one.filename: archive.read(one) for one in archive.infolist()})
    return found


def check(seed: int, folder: Path) -> bool:
    """Whether a damaged file was read; False where it was refused."""
    chance = random.Random(f"pt2 {seed}")
    marker = folder / "ran"
    parts = dict(chance.choice(_samples()))
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        chance.choice(CHANGES)(parts, chance, marker)
    data = _zipped(parts, chance)
    path = folder / "model.pt2"
    # A new file each time: a mapping may still show the old one.
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph, _ = oi.from_torch(path)
        str(graph)
    except oi.CompileError:
        raise
    except oi.OpenInferError as error:
        if not error.code.startswith("OI15") or "model" not in str(error):
            raise RuntimeError("an error without its place") from error
        return False
    finally:
        if marker.exists():
            raise RuntimeError("the file ran code")
    return True


# The archive


def _zipped(parts: Parts, chance: random.Random) -> bytes:
    """The parts as a file; one in four with bytes changed, in its directory more often than elsewhere."""
    file = io.BytesIO()
    packed = zipfile.ZIP_DEFLATED if chance.random() < 0.03 else zipfile.ZIP_STORED
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", packed) as archive:
        warnings.simplefilter("ignore")
        for name, content in parts.items():
            archive.writestr(name, content)
            if chance.random() < 0.002:
                archive.writestr(name, content)
    data = bytearray(file.getvalue())
    if chance.random() < 0.75:
        return bytes(data)
    # The end of the file says where its directory begins.
    (directory,) = struct.unpack_from("<I", data, len(data) - 6)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = (
            chance.randrange(directory, len(data))
            if chance.random() < 0.7
            else chance.randrange(len(data))
        )
        match chance.randrange(4):
            case 0:
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                del data[at : at + chance.choice((1, 2, 8, 100))]
            case 2:
                data[at : at + 4] = struct.pack("<I", chance.choice(NUMBERS) & 0xFFFFFFFF)
            case _:
                data = data[:at]
        if len(data) <= directory:
            break
    return bytes(data)


# Changes of parts


def _json(parts: Parts, chance: random.Random, marker: Path) -> None:
    """Something of a description lost, replaced, or taken from elsewhere in it."""
    name = chance.choice([one for one in parts if one.endswith(".json")] or list(parts))
    try:
        described = json.loads(parts[name])
    except ValueError:
        return  # Another change has been here.
    places: list[tuple[Any, Any]] = []
    left: list[Any] = [described]
    while left:
        one = left.pop()
        keys = (
            list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        )
        for key in keys:
            places.append((one, key))
            left.append(one[key])
    if not places:
        return
    holder, key = chance.choice(places)
    value = holder[key]
    other, other_key = chance.choice(places)
    match chance.randrange(6):
        case 0:
            del holder[key]
        case 1 | 2:
            holder[key] = copy.deepcopy(other[other_key])
        case 3:
            holder[key] = chance.choice((*NUMBERS, None, True, "", [], {}, "x", 1.5))
        case _ if isinstance(value, int):
            holder[key] = chance.choice(NUMBERS)
        case _ if isinstance(value, str):
            holder[key] = _text(value, chance, marker)
        case _:
            holder[key] = [copy.deepcopy(value)] * chance.choice((1, 2, 9))
    parts[name] = json.dumps(described).encode("utf-8", "surrogatepass")


def _text(value: str, chance: random.Random, marker: Path) -> str:
    """Another name, size or function; or what runs where somebody evaluates it."""
    code = f"__import__('pathlib').Path({str(marker)!r}).touch()"
    if value.startswith("[") and chance.random() < 0.5:
        enum = {"__enum__": True, "fqn": "this:s", "name": "x"}
        spec = {"type": "collections.namedtuple", "context": json.dumps(enum), "children_spec": []}
        return json.dumps([1, spec])
    return chance.choice(
        [
            *("", "s77", value + "x", value[:-1], value.replace("aten", "prims"), "\ud800"),
            *(value.replace("1", "9"), value.replace("0", "1"), "Symbol('s9', integer=True)"),
            *(
                "Integer(-1)",
                "Pow(Symbol('s0'), Integer(99))",
                "a" * 5000,
                "os.system",
                "builtins.exec",
            ),
            *(code, f"Max({code}, 2)", f"torch.ops.aten.linear.default({code})"),
        ]
    )


def _part(parts: Parts, chance: random.Random, marker: Path) -> None:
    """A part lost, renamed, cut off, or with the content of another."""
    del marker
    name = chance.choice(list(parts))
    match chance.randrange(5):
        case 0:
            del parts[name]
        case 1:
            new = name + chance.choice(("x", "/..", "/../../x", "\0"))
            parts[new] = parts.pop(name)
        case 2:
            parts[name] = parts[name][: chance.randrange(len(parts[name]) + 1)]
        case 3:
            parts[name] = parts[chance.choice(list(parts))]
        case _:
            content = bytearray(parts[name] or b"\0")
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
            parts[name] = bytes(content)


def _pickle(parts: Parts, chance: random.Random, marker: Path) -> None:
    """A part that is a program to whoever unpickles it; of a tensor, with a description that says so."""
    code = f"__import__('pathlib').Path({str(marker)!r}).touch()"
    payload = b"cbuiltins\neval\n(V" + code.encode("raw_unicode_escape") + b"\ntR."
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", payload)
        archive.writestr("archive/version", "3\n")
    names = [one for one in parts if "json" not in one and "version" not in one]
    if names:
        parts[chance.choice(names)] = payload if chance.random() < 0.5 else file.getvalue()
    for name in [one for one in parts if one.endswith("_config.json")]:
        if chance.random() < 0.5:
            parts[name] = parts[name].replace(b'"use_pickle": false', b'"use_pickle": true')


CHANGES: tuple[Callable[[Parts, random.Random, Path], None], ...] = (
    *(_json,) * 8,
    *(_part, _part, _pickle),
)
