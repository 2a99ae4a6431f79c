"""Rows of recurrent layers, Fourier transforms and rotary embedding."""

from __future__ import annotations

from collections.abc import Iterator

from case import FLOATS, Case, Shapes


def rows() -> Iterator[Case]:
    yield from _recurrent()
    yield from _fourier()
    yield from _rope()


def _layer(
    gates: int, states: int, batch: tuple[int, ...], time: int, width: int, hidden: int, ways: int
) -> Shapes:
    """Shapes of x, states, weights and biases."""
    lead = (2,) if ways == 2 else ()
    return (
        (time, *batch, width),
        *((*lead, *batch, hidden),) * states,
        (*lead, gates * hidden, width),
        (*lead, gates * hidden, hidden),
        (*lead, gates * hidden),
        (*lead, gates * hidden),
    )


def _recurrent() -> Iterator[Case]:
    for op, gates, states in (("lstm", 4, 2), ("gru", 3, 1)):
        outputs = 1 + states
        for dtype in FLOATS:
            shapes = _layer(gates, states, (3,), 5, 4, 6, 1)
            yield Case(op, shapes, (dtype,) * len(shapes), outputs=outputs)
        for batch, time, width, hidden in (
            ((), 4, 3, 5),
            ((1,), 1, 1, 1),
            ((2,), 7, 3, 16),
            ((2,), 3, 17, 33),
            ((0,), 3, 2, 4),
            ((2,), 0, 2, 4),
            ((), 0, 2, 4),
        ):
            shapes = _layer(gates, states, batch, time, width, hidden, 1)
            yield Case(op, shapes, ("f32",) * len(shapes), outputs=outputs)
        for direction in ("reverse", "bidirectional"):
            ways = 2 if direction == "bidirectional" else 1
            for batch, biases in (((3,), 2), ((3,), 1), ((), 0)):
                shapes = _layer(gates, states, batch, 5, 4, 6, ways)
                shapes = shapes[: len(shapes) - 2 + biases]
                settings = {"direction": direction}
                yield Case(op, shapes, ("f32",) * len(shapes), settings, outputs)
        both = {"direction": "bidirectional", "batch_first": True}
        shapes = _layer(gates, states, (3,), 5, 4, 6, 2)
        shapes = ((3, 5, 4), *shapes[1:])
        yield Case(op, shapes, ("f32",) * len(shapes), both, outputs)
        shapes = _layer(gates, states, (3,), 5, 4, 6, 1)
        for count in range(1, outputs):
            yield Case(op, shapes, ("f32",) * len(shapes), outputs=count)
        names = (("T", "B", "4"), *(("B", "6"),) * states)
        yield Case(op, shapes, ("f32",) * len(shapes), outputs=outputs, names=names)
        sizes = (("T", "B", "I"), *(("B", "H"),) * states, (f"{gates}*H", "I"), (f"{gates}*H", "H"))
        sizes = (*sizes, *((f"{gates}*H",),) * 2)
        yield Case(op, shapes, ("f32",) * len(shapes), outputs=outputs, names=sizes)
        mixed = ("f16", *("f32",) * (len(shapes) - 1))
        yield Case(op, shapes, mixed, outputs=outputs)
        yield Case(op, shapes, ("f32",) * len(shapes), outputs=outputs, draw="wide")
        yield Case(op, shapes, ("f32",) * len(shapes), outputs=outputs, draw="gaps")


def _fourier() -> Iterator[Case]:
    for dtype in FLOATS:
        yield Case("rfft", ((3, 12),), (dtype,))
        yield Case("irfft", ((3, 7, 2),), (dtype,))
    for length in (1, 2, 3, 4, 5, 7, 8, 11, 16, 25, 30, 32, 49, 64, 77, 80):
        yield Case("rfft", ((2, length),), ("f32",))
        yield Case("irfft", ((2, length // 2 + 1, 2),), ("f32",), {"n": length})
    for norm in ("ortho", "forward"):
        yield Case("rfft", ((2, 10),), ("f32",), {"norm": norm})
        yield Case("irfft", ((2, 6, 2),), ("f32",), {"norm": norm})
        yield Case("rfft", ((2, 10),), ("f32",), {"norm": norm}, names=(("R", "N"),))
        yield Case("irfft", ((2, 6, 2),), ("f32",), {"norm": norm}, names=(("R", "M", "2"),))
    for length in (1, 6, 15):
        yield Case("rfft", ((2, 10),), ("f32",), {"n": length})
        yield Case("irfft", ((2, 6, 2),), ("f32",), {"n": length})
        yield Case("rfft", ((2, 10),), ("f32",), {"n": length}, names=(("R", "N"),))
        yield Case("irfft", ((2, 6, 2),), ("f32",), {"n": length}, names=(("R", "M", "2"),))
    for shapes in (((9,),), ((2, 3, 9),), ((0, 9),)):
        yield Case("rfft", shapes, ("f32",))
    for shapes in (((5, 2),), ((2, 3, 5, 2),), ((0, 5, 2),)):
        yield Case("irfft", shapes, ("f32",))
    for dtype in FLOATS[:4]:
        yield Case("rfft", ((3, 9),), (dtype,), names=(("R", "N"),))
        yield Case("irfft", ((3, 5, 2),), (dtype,), names=(("R", "M", "2"),))
    yield Case("rfft", ((3, 16),), ("f16",), out="f32")
    yield Case("rfft", ((3, 16),), ("f32",), draw="gaps")
    yield Case("rfft", ((3, 9),), ("f32",), draw="gaps", names=(("R", "N"),))
    yield Case("irfft", ((3, 9, 2),), ("f32",), draw="gaps")


def _rope() -> Iterator[Case]:
    for dtype in FLOATS:
        yield Case("rope", ((2, 3, 5, 8),), (dtype,))
        yield Case("rope", ((2, 3, 5, 8), (5,)), (dtype, "i64"), {"interleaved": True})
    for settings in (
        {"base": 100.0},
        {"dims": 4},
        {"dims": 0},
        {"dims": 2, "interleaved": True},
        {"layout": "blhd"},
        {"layout": "blhd", "interleaved": True, "dims": 6},
    ):
        yield Case("rope", ((2, 3, 5, 8),), ("f32",), settings)
    for positions in ((), (1,), (5,), (2, 5), (2, 1), (1, 5)):
        yield Case("rope", ((2, 3, 5, 8), positions), ("f32", "i32"))
    for positions in ((), (3,), (2, 3)):
        yield Case("rope", ((2, 3, 5, 8), positions), ("f32", "i64"), {"layout": "blhd"})
    for shapes in (((5, 8),), ((3, 1, 2),), ((0, 3, 5, 8),), ((2, 3, 0, 8),), ((1, 2, 3, 7, 66),)):
        yield Case("rope", shapes, ("f32",))
    yield Case("rope", ((5, 8), (5,)), ("f32", "u8"), draw="extreme")
    yield Case("rope", ((2, 3, 5, 8),), ("f32",), names=(("B", "H", "T", "8"),))
    names = (("B", "T", "3", "8"), ("B", "T"))
    yield Case("rope", ((2, 5, 3, 8), (2, 5)), ("f32", "i64"), {"layout": "blhd"}, names=names)
    yield Case("rope", ((2, 3, 5, 8),), ("f32",), draw="gaps")
    heads = {"heads": 3}
    for dtype in FLOATS:
        yield Case("rope", ((2, 5, 24),), (dtype,), heads)
        yield Case("rope", ((2, 5, 24), (5, 3), (5, 3)), (dtype, "f32", "f32"), heads)
    for positions in ((), (5,), (2, 5)):
        yield Case("rope", ((2, 5, 24), positions), ("f32", "i64"), heads)
    yield Case("rope", ((5, 24),), ("f32",), {**heads, "dims": 4, "interleaved": True})
    yield Case("rope", ((2, 5, 24),), ("f32",), heads, names=(("B", "T", "24"),))
