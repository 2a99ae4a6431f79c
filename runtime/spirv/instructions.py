"""THE table of SPIR-V: one row per instruction, one per number that an operand may be.

The words, the text, the checker (beside this file and in `lowering/vulkan/`) follow from these rows alone.

A row of an instruction is its opcode, its name, its operands and, behind `:`, the capabilities of which
one must be declared. An operand is `type` and `result` (the ids that stand in front), `id`, `scope` and
`semantics` (an id of a constant), `word`, `string`, `number` (as wide as the type of the row says), `opcode`,
`case` (number and label), `edge` (value and label), or the name of an enumeration below; `?` may be left
out, `*` comes any number of times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_INSTRUCTIONS: Final = """
17   Capability                           Capability
10   Extension                            string
11   ExtInstImport                        result string
12   ExtInst                              type result id word id*
2 SourceContinued string
3 Source SourceLanguage word id? string?
4 SourceExtension string
7 String result string
8 Line id word word
317 NoLine
330 ModuleProcessed string
14 MemoryModel AddressingModel MemoryModel
15 EntryPoint ExecutionModel id string id*
16 ExecutionMode id ExecutionMode
331 ExecutionModeId id ExecutionMode
5 Name id string
6 MemberName id word string
71 Decorate id Decoration
72 MemberDecorate id word Decoration
19 TypeVoid result
20 TypeBool result
21 TypeInt result word word
22 TypeFloat result word FPEncoding?
23 TypeVector result id word
28 TypeArray result id id
29 TypeRuntimeArray result id : Shader
30 TypeStruct result id*
32 TypePointer result StorageClass id
33 TypeFunction result id id*
41 ConstantTrue type result
42 ConstantFalse type result
43 Constant type result number
44 ConstantComposite type result id*
46 ConstantNull type result
48 SpecConstantTrue type result
49 SpecConstantFalse type result
50 SpecConstant type result number
51 SpecConstantComposite type result id*
52 SpecConstantOp type result opcode
1 Undef type result
59 Variable type result StorageClass id?
61 Load type result id MemoryAccess?
62 Store id id MemoryAccess?
65 AccessChain type result id id*
66 InBoundsAccessChain type result id id*
67 PtrAccessChain type result id id id*
    : VariablePointers|VariablePointersStorageBuffer|PhysicalStorageBufferAddresses
70 InBoundsPtrAccessChain type result id id id*
    : VariablePointers|VariablePointersStorageBuffer|PhysicalStorageBufferAddresses
63 CopyMemory id id MemoryAccess? MemoryAccess?
120 ConvertUToPtr type result id : PhysicalStorageBufferAddresses
117 ConvertPtrToU type result id : PhysicalStorageBufferAddresses
124 Bitcast type result id
54 Function type result FunctionControl id
55 FunctionParameter type result
56 FunctionEnd
248 Label result
249 Branch id
250 BranchConditional id id id word*
251 Switch id id case*
247 SelectionMerge id SelectionControl
246 LoopMerge id id LoopControl
245 Phi type result edge*
253 Return
254 ReturnValue id
255 Unreachable
57 FunctionCall type result id id*
224 ControlBarrier scope scope semantics
225 MemoryBarrier scope semantics
227 AtomicLoad type result id scope semantics
228 AtomicStore id scope semantics id
234 AtomicIAdd type result id scope semantics id
229 AtomicExchange type result id scope semantics id
230 AtomicCompareExchange type result id scope semantics semantics id id
232 AtomicIIncrement type result id scope semantics
235 AtomicISub type result id scope semantics id
236 AtomicSMin type result id scope semantics id
237 AtomicUMin type result id scope semantics id
238 AtomicSMax type result id scope semantics id
240 AtomicAnd type result id scope semantics id
241 AtomicOr type result id scope semantics id
242 AtomicXor type result id scope semantics id
239 AtomicUMax type result id scope semantics id
6035 AtomicFAddEXT type result id scope semantics id : AtomicFloat32AddEXT
80 CompositeConstruct type result id*
81 CompositeExtract type result id word*
82 CompositeInsert type result id id word*
79 VectorShuffle type result id id word*
77 VectorExtractDynamic type result id id
78 VectorInsertDynamic type result id id id
83 CopyObject type result id
109 ConvertFToU type result id
110 ConvertFToS type result id
111 ConvertSToF type result id
112 ConvertUToF type result id
113 UConvert type result id
114 SConvert type result id
115 FConvert type result id
126 SNegate type result id
127 FNegate type result id
128 IAdd type result id id
129 FAdd type result id id
130 ISub type result id id
131 FSub type result id id
132 IMul type result id id
133 FMul type result id id
134 UDiv type result id id
135 SDiv type result id id
136 FDiv type result id id
137 UMod type result id id
138 SRem type result id id
139 SMod type result id id
140 FRem type result id id
141 FMod type result id id
142 VectorTimesScalar type result id id
143 MatrixTimesScalar type result id id : Matrix
148 Dot type result id id
149 IAddCarry type result id id
150 ISubBorrow type result id id
151 UMulExtended type result id id
152 SMulExtended type result id id
194 ShiftRightLogical type result id id
195 ShiftRightArithmetic type result id id
196 ShiftLeftLogical type result id id
197 BitwiseOr type result id id
198 BitwiseXor type result id id
199 BitwiseAnd type result id id
200 Not type result id
201 BitFieldInsert type result id id id id : Shader
202 BitFieldSExtract type result id id id : Shader
203 BitFieldUExtract type result id id id : Shader
204 BitReverse type result id : Shader
205 BitCount type result id
170 IEqual type result id id
171 INotEqual type result id id
172 UGreaterThan type result id id
173 SGreaterThan type result id id
174 UGreaterThanEqual type result id id
175 SGreaterThanEqual type result id id
176 ULessThan type result id id
177 SLessThan type result id id
178 ULessThanEqual type result id id
179 SLessThanEqual type result id id
180 FOrdEqual type result id id
181 FUnordEqual type result id id
182 FOrdNotEqual type result id id
183 FUnordNotEqual type result id id
184 FOrdLessThan type result id id
185 FUnordLessThan type result id id
186 FOrdGreaterThan type result id id
187 FUnordGreaterThan type result id id
188 FOrdLessThanEqual type result id id
189 FUnordLessThanEqual type result id id
190 FOrdGreaterThanEqual type result id id
191 FUnordGreaterThanEqual type result id id
156 IsNan type result id
157 IsInf type result id
164 LogicalEqual type result id id
165 LogicalNotEqual type result id id
166 LogicalOr type result id id
167 LogicalAnd type result id id
168 LogicalNot type result id
169 Select type result id id id
333 GroupNonUniformElect type result scope : GroupNonUniform
334 GroupNonUniformAll type result scope id : GroupNonUniformVote
335 GroupNonUniformAny type result scope id : GroupNonUniformVote
337 GroupNonUniformBroadcast type result scope id id : GroupNonUniformBallot
338 GroupNonUniformBroadcastFirst type result scope id : GroupNonUniformBallot
339 GroupNonUniformBallot type result scope id : GroupNonUniformBallot
345 GroupNonUniformShuffle type result scope id id : GroupNonUniformShuffle
346 GroupNonUniformShuffleXor type result scope id id : GroupNonUniformShuffle
347 GroupNonUniformShuffleUp type result scope id id : GroupNonUniformShuffleRelative
348 GroupNonUniformShuffleDown type result scope id id : GroupNonUniformShuffleRelative
349 GroupNonUniformIAdd type result scope GroupOperation id id?
    : GroupNonUniformArithmetic|GroupNonUniformClustered
350 GroupNonUniformFAdd type result scope GroupOperation id id?
    : GroupNonUniformArithmetic|GroupNonUniformClustered
351 GroupNonUniformIMul type result scope GroupOperation id id?
    : GroupNonUniformArithmetic|GroupNonUniformClustered
352 GroupNonUniformFMul type result scope GroupOperation id id?
    : GroupNonUniformArithmetic|GroupNonUniformClustered
353 GroupNonUniformSMin type result scope GroupOperation id id?
    : GroupNonUniformArithmetic|GroupNonUniformClustered
354 GroupNonUniformUMin type result scope GroupOperation id id?
    : GroupNonUniformArithmetic|GroupNonUniformClustered
355 GroupNonUniformFMin type result scope GroupOperation id id?
    : GroupNonUniformArithmetic|GroupNonUniformClustered
356 GroupNonUniformSMax type result scope GroupOperation id id?
    : GroupNonUniformArithmetic|GroupNonUniformClustered
357 GroupNonUniformUMax type result scope GroupOperation id id?
    : GroupNonUniformArithmetic|GroupNonUniformClustered
358 GroupNonUniformFMax type result scope GroupOperation id id?
    : GroupNonUniformArithmetic|GroupNonUniformClustered
359 GroupNonUniformBitwiseAnd type result scope GroupOperation id id?
    : GroupNonUniformArithmetic|GroupNonUniformClustered
360 GroupNonUniformBitwiseOr type result scope GroupOperation id id?
    : GroupNonUniformArithmetic|GroupNonUniformClustered
361 GroupNonUniformBitwiseXor type result scope GroupOperation id id?
    : GroupNonUniformArithmetic|GroupNonUniformClustered
362 GroupNonUniformLogicalAnd type result scope GroupOperation id id?
    : GroupNonUniformArithmetic|GroupNonUniformClustered
363 GroupNonUniformLogicalOr type result scope GroupOperation id id?
    : GroupNonUniformArithmetic|GroupNonUniformClustered
364 GroupNonUniformLogicalXor type result scope GroupOperation id id?
    : GroupNonUniformArithmetic|GroupNonUniformClustered
4450 SDot type result id id PackedVectorFormat? : DotProduct
4451 UDot type result id id PackedVectorFormat? : DotProduct
4452 SUDot type result id id PackedVectorFormat? : DotProduct
4453 SDotAccSat type result id id id PackedVectorFormat? : DotProduct
4454 UDotAccSat type result id id id PackedVectorFormat? : DotProduct
4455 SUDotAccSat type result id id id PackedVectorFormat? : DotProduct
4456 TypeCooperativeMatrixKHR result id scope id id id : CooperativeMatrixKHR
4457 CooperativeMatrixLoadKHR type result id id id? MemoryAccess? : CooperativeMatrixKHR
4458 CooperativeMatrixStoreKHR id id id id? MemoryAccess? : CooperativeMatrixKHR
4459 CooperativeMatrixMulAddKHR type result id id id CooperativeMatrixOperands?
    : CooperativeMatrixKHR
4460 CooperativeMatrixLengthKHR type result id : CooperativeMatrixKHR
5293 CooperativeMatrixConvertUseEXT type result id : CooperativeMatrixConversionsNV
5366 CooperativeMatrixReduceEXT type result id CooperativeMatrixReduce id
    : CooperativeMatrixReductionsNV
5369 CooperativeMatrixPerElementOpEXT type result id id id*
    : CooperativeMatrixPerElementOperationsNV
5367 CooperativeMatrixLoadTensorNV type result id id id MemoryAccess TensorAddressingOperands
    : CooperativeMatrixTensorAddressingNV
5368 CooperativeMatrixStoreTensorNV id id id MemoryAccess TensorAddressingOperands
    : CooperativeMatrixTensorAddressingNV
5390 CooperativeMatrixTransposeNV type result id : CooperativeMatrixConversionsNV
5370 TypeTensorLayoutNV result id id : TensorAddressingNV
5371 TypeTensorViewNV result id id id* : TensorAddressingNV
5372 CreateTensorLayoutNV type result : TensorAddressingNV
5373 TensorLayoutSetDimensionNV type result id id* : TensorAddressingNV
5374 TensorLayoutSetStrideNV type result id id* : TensorAddressingNV
5375 TensorLayoutSliceNV type result id id* : TensorAddressingNV
5376 TensorLayoutSetClampValueNV type result id id : TensorAddressingNV
5384 TensorLayoutSetBlockSizeNV type result id id* : TensorAddressingNV
5377 CreateTensorViewNV type result : TensorAddressingNV
5378 TensorViewSetDimensionNV type result id id* : TensorAddressingNV
5379 TensorViewSetStrideNV type result id id* : TensorAddressingNV
5382 TensorViewSetClipNV type result id id id id id : TensorAddressingNV
"""

# Number, name and, behind `<`, what declaring it declares too (any one of several).
_CAPABILITIES: Final = """
0 Matrix
1 Shader < Matrix
9 Float16
10 Float64
11 Int64
22 Int16
39 Int8
61 GroupNonUniform
62 GroupNonUniformVote < GroupNonUniform
63 GroupNonUniformArithmetic < GroupNonUniform
64 GroupNonUniformBallot < GroupNonUniform
65 GroupNonUniformShuffle < GroupNonUniform
66 GroupNonUniformShuffleRelative < GroupNonUniform
67 GroupNonUniformClustered < GroupNonUniform
68 GroupNonUniformQuad < GroupNonUniform
4212 Float8EXT
4213 Float8CooperativeMatrixEXT < Float8EXT CooperativeMatrixKHR
4428 WorkgroupMemoryExplicitLayoutKHR < Shader
4429 WorkgroupMemoryExplicitLayout8BitAccessKHR < WorkgroupMemoryExplicitLayoutKHR
4430 WorkgroupMemoryExplicitLayout16BitAccessKHR < WorkgroupMemoryExplicitLayoutKHR
4433 StorageBuffer16BitAccess
4434 UniformAndStorageBuffer16BitAccess < StorageBuffer16BitAccess
4435 StoragePushConstant16
4441 VariablePointersStorageBuffer < Shader
4442 VariablePointers < VariablePointersStorageBuffer
4448 StorageBuffer8BitAccess
4449 UniformAndStorageBuffer8BitAccess < StorageBuffer8BitAccess
4450 StoragePushConstant8
4464 DenormPreserve
4465 DenormFlushToZero
4466 SignedZeroInfNanPreserve
4467 RoundingModeRTE
5116 BFloat16TypeKHR
5117 BFloat16DotProductKHR < BFloat16TypeKHR
5118 BFloat16CooperativeMatrixKHR < BFloat16TypeKHR CooperativeMatrixKHR
5345 VulkanMemoryModel
5346 VulkanMemoryModelDeviceScope
5347 PhysicalStorageBufferAddresses < Shader
5426 Shader64BitIndexingEXT
5430 CooperativeMatrixReductionsNV
5431 CooperativeMatrixConversionsNV
5432 CooperativeMatrixPerElementOperationsNV
5433 CooperativeMatrixTensorAddressingNV
5434 CooperativeMatrixBlockLoadsNV
5439 TensorAddressingNV
6016 DotProductInputAll
6017 DotProductInput4x8Bit < Int8
6018 DotProductInput4x8BitPacked
6019 DotProduct
6022 CooperativeMatrixKHR
6033 AtomicFloat32AddEXT
"""

# Enumerant: its number and the operands that it brings with it.
ENUMERATIONS: Final[dict[str, dict[str, tuple[int, str]]]] = {
    "StorageClass": {
        "Input": (1, ""),
        "Uniform": (2, ""),
        "Workgroup": (4, ""),
        "Private": (6, ""),
        "Function": (7, ""),
        "PushConstant": (9, ""),
        "StorageBuffer": (12, ""),
        "PhysicalStorageBuffer": (5349, ""),
    },
    "SourceLanguage": {
        "Unknown": (0, ""),
        "ESSL": (1, ""),
        "GLSL": (2, ""),
        "OpenCL_C": (3, ""),
        "OpenCL_CPP": (4, ""),
        "HLSL": (5, ""),
    },
    "Decoration": {
        "RelaxedPrecision": (0, ""),
        "SpecId": (1, "word"),
        "Block": (2, ""),
        "ArrayStride": (6, "word"),
        "BuiltIn": (11, "BuiltIn"),
        "Restrict": (19, ""),
        "Aliased": (20, ""),
        "NonWritable": (24, ""),
        "NonReadable": (25, ""),
        "Binding": (33, "word"),
        "DescriptorSet": (34, "word"),
        "Offset": (35, "word"),
        "FPRoundingMode": (39, "FPRoundingMode"),
        "NoContraction": (42, ""),
        "RestrictPointer": (5355, ""),
        "AliasedPointer": (5356, ""),
        "Coherent": (23, ""),
        "Volatile": (21, ""),
        "RowMajor": (4, ""),
        "ColMajor": (5, ""),
        "MatrixStride": (7, "word"),
    },
    "ExecutionMode": {
        "LocalSize": (17, "word word word"),
        "LocalSizeId": (38, "id id id"),
        "DenormPreserve": (4459, "word"),
        "DenormFlushToZero": (4460, "word"),
        "SignedZeroInfNanPreserve": (4461, "word"),
        "RoundingModeRTE": (4462, "word"),
    },
    "AddressingModel": {
        "Logical": (0, ""),
        "PhysicalStorageBuffer64": (5348, ""),
    },
    "MemoryModel": {
        "GLSL450": (1, ""),
        "Vulkan": (3, ""),
    },
    "ExecutionModel": {
        "GLCompute": (5, ""),
    },
    "GroupOperation": {
        "Reduce": (0, ""),
        "InclusiveScan": (1, ""),
        "ExclusiveScan": (2, ""),
        "ClusteredReduce": (3, ""),
    },
    "PackedVectorFormat": {
        "PackedVectorFormat4x8Bit": (0, ""),
    },
    "FPEncoding": {
        "BFloat16KHR": (0, ""),
        "Float8E4M3EXT": (4214, ""),
        "Float8E5M2EXT": (4215, ""),
    },
    "MemoryAccess": {
        "Volatile": (0x1, ""),
        "Aligned": (0x2, "word"),
        "Nontemporal": (0x4, ""),
        "MakePointerAvailable": (0x8, "scope"),
        "MakePointerVisible": (0x10, "scope"),
        "NonPrivatePointer": (0x20, ""),
    },
    "FunctionControl": {
        "Inline": (0x1, ""),
        "DontInline": (0x2, ""),
        "Pure": (0x4, ""),
        "Const": (0x8, ""),
    },
    "SelectionControl": {
        "Flatten": (0x1, ""),
        "DontFlatten": (0x2, ""),
    },
    "LoopControl": {
        "Unroll": (0x1, ""),
        "DontUnroll": (0x2, ""),
    },
    "CooperativeMatrixOperands": {
        "MatrixASignedComponentsKHR": (0x1, ""),
        "MatrixBSignedComponentsKHR": (0x2, ""),
        "MatrixCSignedComponentsKHR": (0x4, ""),
        "MatrixResultSignedComponentsKHR": (0x8, ""),
        "SaturatingAccumulationKHR": (0x10, ""),
    },
    "CooperativeMatrixReduce": {
        "Row": (0x1, ""),
        "Column": (0x2, ""),
        "2x2": (0x4, ""),
    },
    "TensorAddressingOperands": {
        "TensorView": (0x1, "id"),
        "DecodeFunc": (0x2, "id"),
    },
    "BuiltIn": {
        "NumWorkgroups": (24, ""),
        "WorkgroupSize": (25, ""),
        "WorkgroupId": (26, ""),
        "LocalInvocationId": (27, ""),
        "GlobalInvocationId": (28, ""),
        "LocalInvocationIndex": (29, ""),
        "SubgroupSize": (36, ""),
        "NumSubgroups": (38, ""),
        "SubgroupId": (40, ""),
        "SubgroupLocalInvocationId": (41, ""),
    },
    "FPRoundingMode": {
        "RTE": (0, ""),
        "RTZ": (1, ""),
    },
    # These stand in words as ids of constants.
    "Scope": {
        "CrossDevice": (0, ""),
        "Device": (1, ""),
        "Workgroup": (2, ""),
        "Subgroup": (3, ""),
        "Invocation": (4, ""),
        "QueueFamily": (5, ""),
    },
    "MemorySemantics": {
        "Acquire": (0x2, ""),
        "Release": (0x4, ""),
        "AcquireRelease": (0x8, ""),
        "SequentiallyConsistent": (0x10, ""),
        "UniformMemory": (0x40, ""),
        "SubgroupMemory": (0x80, ""),
        "WorkgroupMemory": (0x100, ""),
        "CrossWorkgroupMemory": (0x200, ""),
        "AtomicCounterMemory": (0x400, ""),
        "ImageMemory": (0x800, ""),
        "OutputMemory": (0x1000, ""),
        "MakeAvailable": (0x2000, ""),
        "MakeVisible": (0x4000, ""),
        "Volatile": (0x8000, ""),
    },
    "CooperativeMatrixLayout": {
        "RowMajorKHR": (0, ""),
        "ColumnMajorKHR": (1, ""),
    },
    "CooperativeMatrixUse": {
        "MatrixAKHR": (0, ""),
        "MatrixBKHR": (1, ""),
        "MatrixAccumulatorKHR": (2, ""),
    },
    "TensorClampMode": {
        "Undefined": (0, ""),
        "Constant": (1, ""),
        "ClampToEdge": (2, ""),
        "Repeat": (3, ""),
        "RepeatMirrored": (4, ""),
    },
}
MASKS: Final = frozenset(
    {
        "MemoryAccess",
        "FunctionControl",
        "SelectionControl",
        "LoopControl",
        "CooperativeMatrixOperands",
        "CooperativeMatrixReduce",
        "TensorAddressingOperands",
        "MemorySemantics",
    }
)


@dataclass(frozen=True)
class Operand:
    """One operand of an instruction: its kind, and whether it may be missing or repeat."""

    kind: str
    optional: bool = False
    repeats: bool = False


@dataclass(frozen=True)
class Row:
    """One instruction of SPIR-V."""

    opcode: int
    name: str
    operands: tuple[Operand, ...]
    capabilities: frozenset[str]


def operand(text: str) -> Operand:
    """`id*` as a record."""
    return Operand(text.rstrip("?*"), text.endswith("?"), text.endswith("*"))


def _row(line: str) -> Row:
    front, _, needs = line.partition(" : ")
    opcode, name, *operands = front.split()
    capabilities = frozenset(needs.split("|")) if needs else frozenset[str]()
    return Row(int(opcode), name, tuple(operand(text) for text in operands), capabilities)


def _lines(table: str) -> list[str]:
    """The rows of a table; what is indented goes on with the line before."""
    return table.strip().replace("|\n    ", "|").replace("\n    ", " ").splitlines()


ROWS: Final = {row.opcode: row for row in map(_row, _lines(_INSTRUCTIONS))}
BY_NAME: Final = {row.name: row for row in ROWS.values()}
CAPABILITIES: Final = {
    line.split()[1]: (int(line.split()[0]), tuple(line.partition(" < ")[2].split()))
    for line in _lines(_CAPABILITIES)
}

_EXTENDED: Final = """
1 Round | 2 RoundEven | 3 Trunc | 4 FAbs | 5 SAbs | 6 FSign | 7 SSign | 8 Floor | 9 Ceil | 10 Fract
13 Sin | 14 Cos | 15 Tan | 16 Asin | 17 Acos | 18 Atan | 19 Sinh | 20 Cosh | 21 Tanh | 22 Asinh | 23 Acosh
24 Atanh | 25 Atan2 | 26 Pow | 27 Exp | 28 Log | 29 Exp2 | 30 Log2 | 31 Sqrt | 32 InverseSqrt | 37 FMin
38 UMin | 39 SMin | 40 FMax | 41 UMax | 42 SMax | 43 FClamp | 44 UClamp | 45 SClamp | 46 FMix | 50 Fma
52 FrexpStruct | 53 Ldexp | 58 PackHalf2x16 | 62 UnpackHalf2x16 | 73 FindILsb | 74 FindSMsb | 75 FindUMsb
79 NMin | 80 NMax | 81 NClamp
"""
EXTENDED: Final = {
    one.split()[1]: int(one.split()[0])
    for one in _EXTENDED.replace("\n", "|").split("|")
    if one.strip()
}
"""The instructions of `GLSL.std.450` with their numbers."""
ENUMERATIONS["Capability"] = {name: (number, "") for name, (number, _) in CAPABILITIES.items()}
