"""Drawn modules of the `spirv` dialect that a validator accepts, as text."""

from __future__ import annotations

import random
import re

HEAD = """
!buffer = !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
!whole = !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0, NonWritable])>, StorageBuffer>
!tile = !spirv.ptr<!spirv.array<64 x f32>, Workgroup>
!push = !spirv.ptr<!spirv.struct<sizes, (i32 [0], si32 [4])>, PushConstant>
!input = !spirv.ptr<vector<3xi32>, Input>
spirv.module Logical GLSL450 requires #spirv.vce<v1.3, [Shader, Int64, Float64, GroupNonUniformArithmetic, GroupNonUniformShuffle, GroupNonUniformBallot], []> {
  spirv.GlobalVariable @in bind(0, 0) : !buffer
  spirv.GlobalVariable @numbers bind(0, 1) {restrict} : !whole
  spirv.GlobalVariable @out bind(1, 0) {aliased} : !buffer
  spirv.GlobalVariable @tile : !tile
  spirv.GlobalVariable @push : !push
  spirv.GlobalVariable @id built_in("GlobalInvocationId") : !input
  spirv.SpecConstant @steps spec_id(7) = 5 : i32
  spirv.func @twice(%a: f32) -> f32 "Inline" {
    %b = spirv.FAdd %a, %a : f32
    spirv.ReturnValue %b : f32
  }
  spirv.func @main() "None" {
    %zero = spirv.Constant 0 : i32
    %first = spirv.Constant 0.5 : f32
    %yes = spirv.Constant true
    %steps = spirv.mlir.referenceof @steps : i32
    %where = spirv.mlir.addressof @id : !input
    %xyz = spirv.Load "Input" %where : vector<3xi32>
    %x = spirv.CompositeExtract %xyz[0 : i32] : vector<3xi32>
    %in = spirv.mlir.addressof @in : !buffer
    %numbers = spirv.mlir.addressof @numbers : !whole
    %out = spirv.mlir.addressof @out : !buffer
    %tile = spirv.mlir.addressof @tile : !tile
    %push = spirv.mlir.addressof @push : !push
    %sum = spirv.Variable init(%first) : !spirv.ptr<f32, Function>
"""  # noqa: E501
TAIL = """
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main, @id
  spirv.ExecutionMode @main "LocalSize", 64, 1, 1
}
"""
FLOATS = ("f32", "f64", "vector<3xf32>")
INTEGERS = ("i32", "si32", "i64", "vector<2xi32>")
CONSTANTS = {
    "f32": "0x3F000001 : f32",
    "f64": "0.1 : f64",
    "vector<3xf32>": "dense<[1.0, 2.0, 0.25]> : vector<3xf32>",
    "i32": "7 : i32",
    "si32": "-3 : si32",
    "i64": "-81985529216486895 : i64",
    "vector<2xi32>": "dense<[-1, 2]> : vector<2xi32>",
    "i1": "true",
}


class Drawn:
    """Draws one module; values are known by type while they can be used."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0
        self.known: dict[str, list[str]] = {
            "f32": ["%first"],
            "i32": ["%zero", "%x", "%steps"],
            "i1": ["%yes"],
        }

    def text(self) -> str:
        self.body(depth=0)
        return HEAD + "\n".join(self.lines) + TAIL

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def put(self, text: str, type_: str | None = None) -> str:
        name = self.name()
        self.lines.append(f"{name} = spirv.{text}" if type_ else f"spirv.{text}")
        if type_:
            self.known.setdefault(type_, []).append(name)
        return name

    def any(self, type_: str) -> str:
        found = self.known.get(type_)
        if not found or self.random.random() < 0.1:
            return self.put(f"Constant {CONSTANTS[type_]}", type_)
        return self.random.choice(found)

    def body(self, depth: int) -> None:
        for _ in range(self.random.randint(1, 8)):
            pick = self.random.random()
            if pick < 0.12 and depth < 4:
                self.scoped(self.selection, depth)
            elif pick < 0.24 and depth < 4:
                self.scoped(self.loop, depth)
            else:
                self.random.choice(
                    [self.floats, self.integers, self.memory, self.lanes, self.parts]
                )()

    def scoped(self, what: object, depth: int) -> None:
        assert callable(what)
        before = {type_: list(names) for type_, names in self.known.items()}
        what(depth + 1)
        self.known = before

    def floats(self) -> None:
        type_ = self.random.choice(FLOATS)
        a, b = self.any(type_), self.any(type_)
        exact = self.random.choice(["", " {no_contraction}"])
        op = self.random.choice(
            ["FAdd", "FSub", "FMul", "FDiv", "FOrdLessThan", "GL.FMax", "Select"]
        )
        if op == "FOrdLessThan":
            result = "i1" if type_[0] == "f" else "vector<3xi1>"
            self.put(f"{op} {a}, {b} : {type_}", result)
        elif op == "Select":
            self.put(f"Select {self.any('i1')}, {a}, {a} : i1, {type_}" if type_[0] == "f" else
                     f"FNegate {a} : {type_}", type_)  # fmt: skip
        else:
            self.put(f"{op} {a}, {b}{exact if op[0] == 'F' else ''} : {type_}", type_)

    def integers(self) -> None:
        type_ = self.random.choice(INTEGERS)
        a, b = self.any(type_), self.any(type_)
        op = self.random.choice(
            ["IAdd", "IMul", "BitwiseXor", "SLessThan", "ShiftLeftLogical", "Bit"]
        )
        if op == "SLessThan":
            self.put(f"{op} {a}, {b} : {type_}", "vector<2xi1>" if type_[0] == "v" else "i1")
        elif op == "ShiftLeftLogical":
            self.put(f"{op} {a}, {b} : {type_}, {type_}", type_)
        elif op == "Bit":
            self.put(f"Bitcast {self.any('f32')} : f32 to i32", "i32")
            self.put(f"Bitcast {self.any('i32')} : i32 to si32", "si32")
        else:
            self.put(f"{op} {a}, {b} : {type_}", type_)

    def memory(self) -> None:
        index = self.any("i32")
        pick = self.random.randrange(5)
        if pick == 0:
            p = self.put(f"AccessChain %in[%zero, {index}] : !buffer, i32, i32", "p")
            self.put(f'Load "StorageBuffer" {p} ["Aligned", 4] : f32', "f32")
        elif pick == 1:
            p = self.put(f"AccessChain %numbers[%zero, {index}] : !whole, i32, i32", "p")
            self.put(f'Load "StorageBuffer" {p} : i32', "i32")
        elif pick == 2:
            value = self.any("f32")
            p = self.put(f"AccessChain %out[%zero, {index}] : !buffer, i32, i32", "p")
            self.put(f'Store "StorageBuffer" {p}, {value} ["Volatile"] : f32')
        elif pick == 3:
            value = self.any("f32")
            p = self.put(f"AccessChain %tile[{index}] : !tile, i32", "p")
            self.put(f'Store "Workgroup" {p}, {value} : f32')
            self.put("ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory>")
            self.put(f'Load "Workgroup" {p} : f32', "f32")
        else:
            self.put(f'Store "Function" %sum, {self.any("f32")} : f32')
            self.put('Load "Function" %sum : f32', "f32")
            p = self.put("AccessChain %push[%zero] : !push, i32", "p")
            self.put(f'Load "PushConstant" {p} : i32', "i32")

    def lanes(self) -> None:
        value, lane = self.any("f32"), self.any("i32")
        self.put(f'GroupNonUniformFAdd "Subgroup" "Reduce" {value} : f32', "f32")
        self.put(f"GroupNonUniformShuffleXor <Subgroup> {value}, {lane} : f32, i32", "f32")
        self.put(f'GroupNonUniformIAdd "Subgroup" "InclusiveScan" {lane} : i32', "i32")
        self.put("GroupNonUniformElect <Subgroup> : i1", "i1")

    def parts(self) -> None:
        vector = self.any("vector<3xf32>")
        self.put(f"CompositeExtract {vector}[2 : i32] : vector<3xf32>", "f32")
        x = self.any("f32")
        self.put(
            f"CompositeInsert {x}, {vector}[1 : i32] : f32 into vector<3xf32>", "vector<3xf32>"
        )
        self.put(
            f"CompositeConstruct {x}, {x}, {x} : (f32, f32, f32) -> vector<3xf32>", "vector<3xf32>"
        )
        self.put("Undef : f32", "f32")
        self.put(f"FunctionCall @twice({x}) : (f32) -> f32", "f32")

    def selection(self, depth: int) -> None:
        condition = self.any("i1")
        number = self.count = self.count + 1
        both = self.random.random() < 0.5
        control = self.random.choice(["", " control(Flatten)"])
        weights = self.random.choice(["", " [3, 1]"])
        other = f"^else{number}" if both else f"^merge{number}"
        self.lines.append(f"spirv.mlir.selection{control} {{")
        self.put(f"BranchConditional {condition}{weights}, ^then{number}, {other}")
        for name in ("then", "else")[: 1 + both]:
            self.lines.append(f"^{name}{number}:")
            before = {type_: list(names) for type_, names in self.known.items()}
            self.body(depth)
            self.known = before
            returns = self.random.random() < 0.05
            self.put("Return" if returns else f"Branch ^merge{number}")
        self.lines += [f"^merge{number}:", "spirv.mlir.merge", "}"]

    def loop(self, depth: int) -> None:
        start, value, last = self.any("i32"), self.any("f32"), self.any("i32")
        one = self.put("Constant 1 : i32", "i32")
        number = self.count = self.count + 1
        i, carried = f"%i{number}", f"%c{number}"
        self.lines.append("spirv.mlir.loop control(Unroll) {")
        self.put(f"Branch ^header{number}({start}, {value} : i32, f32)")
        self.lines.append(f"^header{number}({i}: i32, {carried}: f32):")
        self.known["i32"].append(i)
        self.known["f32"].append(carried)
        more = self.put(f"SLessThan {i}, {last} : i32", "i1")
        self.put(f"BranchConditional {more}, ^body{number}, ^merge{number}")
        self.lines.append(f"^body{number}:")
        self.body(depth)
        given = self.any("f32")
        self.put(f"Branch ^continue{number}")
        self.lines.append(f"^continue{number}:")
        after = self.put(f"IAdd {i}, {one} : i32", "i32")
        self.put(f"Branch ^header{number}({after}, {given} : i32, f32)")
        self.lines += [f"^merge{number}:", "spirv.mlir.merge", "}"]


MUTATIONS: tuple[tuple[str, str], ...] = (
    (r"\bf32\b", "f64"),
    (r"\bf32\b", "f16"),
    (r"\bi32\b", "i16"),
    (r"\bi32\b", "i8"),
    (r"\bi32\b", "si32"),
    (r", stride=4", ""),
    (r", stride=4", ", stride=2"),
    (r" \[0\]", ""),
    (r" \[4\]", ""),
    (r"\bStorageBuffer\b", "Uniform"),
    (r"\bStorageBuffer\b", "Workgroup"),
    (r"\bWorkgroup\b", "Private"),
    (r"\bInput\b", "Private"),
    (r"\bPushConstant\b", "StorageBuffer"),
    (r" bind\(0, 0\)", ""),
    (r"Int64, ", ""),
    (r"Float64, ", ""),
    (r"GroupNonUniformArithmetic, ", ""),
    (r"GroupNonUniformBallot", "GroupNonUniformVote"),
    (r"v1\.3", "v1.0"),
    (r"v1\.3", "v1.5"),
    (r", @id\n", "\n"),
    (r"LocalSize", "SignedZeroInfNanPreserve"),
    (r"FAdd", "FDiv"),
    (r"IAdd", "FAdd"),
    (r"SLessThan", "IEqual"),
    (r"spirv\.Return\b", "spirv.Unreachable"),
    (r"GlobalInvocationId", "NumSubgroups"),
    (r"vector<3xi32>", "vector<4xi32>"),
)


def mutated(text: str, draw: random.Random) -> str:
    """A module with a type, a name, a line or something else exchanged, here and there or everywhere."""
    pick = draw.random()
    lines = text.split("\n")
    if pick < 0.25:
        place = draw.randrange(len(lines))
        names = re.findall(r"%\w+", lines[place])
        known = re.findall(r"(%\w+) =", text)
        if names:
            lines[place] = lines[place].replace(names[-1], draw.choice(known))
    elif pick < 0.4:
        del lines[draw.randrange(len(lines))]
    elif pick < 0.5:
        first, second = draw.randrange(len(lines)), draw.randrange(len(lines))
        lines[first], lines[second] = lines[second], lines[first]
    else:
        old, new = draw.choice(MUTATIONS)
        found = list(re.finditer(old, text))
        if not found:
            return text
        if draw.random() < 0.5:
            return re.sub(old, new, text)
        chosen = draw.choice(found)
        return text[: chosen.start()] + new + text[chosen.end() :]
    return "\n".join(lines)
