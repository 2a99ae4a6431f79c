"""llama.cpp's C interface, of the library that `xllamacpp` brings: structures, and a model that runs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from importlib import import_module, metadata, util
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

F32, F16 = 0, 1
OFF = 0
"""No fused attention: with it llama.cpp takes three times as long for one token on a CPU, and rounds
more."""
pointer = ctypes.c_void_p


class ModelParameters(ctypes.Structure):
    """`llama_model_params`."""

    _fields_ = [
        *((name, pointer) for name in ("devices", "overrides")),
        *((name, ctypes.c_int32) for name in ("gpu_layers", "split_mode", "load", "lazy", "main")),
        *((name, pointer) for name in ("tensor_split", "progress", "progress_data", "pairs")),
        *((name, ctypes.c_bool) for name in ("vocab_only", "check", "extra", "no_host")),
        *((name, ctypes.c_bool) for name in ("no_alloc", "more")),
    ]


class ContextParameters(ctypes.Structure):
    """`llama_context_params`."""

    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("context", "batch", "micro_batch", "sequences")),
        *((name, ctypes.c_uint32) for name in ("rollback", "outputs", "sequence_outputs")),
        *((name, ctypes.c_int32) for name in ("threads", "batch_threads", "kind")),
        *((name, ctypes.c_int32) for name in ("scaling", "pooling", "attention", "flash")),
        *((name, ctypes.c_float) for name in ("base", "scale", "yarn_a", "yarn_b", "yarn_c")),
        *(("yarn_d", ctypes.c_float), ("original", ctypes.c_uint32), ("defrag", ctypes.c_float)),
        *((name, pointer) for name in ("evaluated", "evaluated_data")),
        *((name, ctypes.c_int32) for name in ("keys", "values")),
        *((name, pointer) for name in ("experts", "abort", "abort_data")),
        *((name, ctypes.c_bool) for name in ("embeddings", "offload", "no_times", "offload_ops")),
        *((name, ctypes.c_bool) for name in ("whole_window", "unified")),
        *((name, pointer) for name in ("samplers", "sampler_count", "other")),
    ]


class Batch(ctypes.Structure):
    """`llama_batch`."""

    _fields_ = [
        ("count", ctypes.c_int32),
        ("tokens", ctypes.POINTER(ctypes.c_int32)),
        ("vectors", ctypes.POINTER(ctypes.c_float)),
        ("places", ctypes.POINTER(ctypes.c_int32)),
        ("sequence_counts", ctypes.POINTER(ctypes.c_int32)),
        ("sequences", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
        ("wanted", ctypes.POINTER(ctypes.c_int8)),
    ]


def library() -> Any:
    """The C interface. Raises RuntimeError when its structures are not those that are known here."""
    import_module("xllamacpp")  # brings what its library needs
    found = util.find_spec("xllamacpp.xllamacpp")
    assert found is not None
    assert found.origin is not None
    lib = ctypes.CDLL(found.origin)
    lib.llama_model_default_params.restype = ModelParameters
    lib.llama_context_default_params.restype = ContextParameters
    for name in (
        *("llama_model_load_from_file", "llama_init_from_model", "llama_get_memory"),
        "llama_model_get_vocab",
    ):
        getattr(lib, name).restype = pointer
    for name in ("llama_state_seq_get_size", "llama_state_seq_get_data"):
        getattr(lib, name).restype = ctypes.c_size_t
    lib.llama_state_seq_set_data.restype = ctypes.c_size_t
    for name in ("llama_get_embeddings_ith", "llama_get_logits_ith", "llama_get_logits"):
        getattr(lib, name).restype = ctypes.POINTER(ctypes.c_float)
    lib.llama_batch_init.restype = Batch
    lib.llama_memory_seq_rm.restype = ctypes.c_bool
    usual = lib.llama_context_default_params()
    known = (usual.context, usual.batch, usual.micro_batch, usual.threads, usual.flash, usual.keys)
    if known != (512, 2048, 512, 4, -1, 1) or not usual.offload or usual.embeddings:
        version = metadata.version("xllamacpp")
        raise RuntimeError(f"xllamacpp {version} has another interface than is known here")
    lib.llama_log_set(silent, None)
    lib.llama_backend_init()
    return lib


LISTENER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, pointer)


@LISTENER
def silent(level: int, text: bytes, data: int) -> None:
    del level, text, data


def must(holds: Any, what: str) -> None:
    """Raises RuntimeError that names a function of the library."""
    if not holds:
        raise RuntimeError(f"{what} failed")


class Llama:
    """A model from a file, and one sequence of tokens.

    The cache is in f16, as llama.cpp has it unless told otherwise, or in f32.
    """

    def __init__(
        self, path: Path, context: int, threads: int, batch: int = 512, cache: int = F16
    ) -> None:
        self._lib = lib = library()
        loading = lib.llama_model_default_params()
        self._model = pointer(lib.llama_model_load_from_file(str(path).encode(), loading))
        must(self._model.value, "llama_model_load_from_file")
        chosen = lib.llama_context_default_params()
        chosen.context, chosen.batch, chosen.micro_batch = context, context, batch
        chosen.threads = chosen.batch_threads = threads
        chosen.flash, chosen.keys, chosen.values = OFF, cache, cache
        self._context = pointer(lib.llama_init_from_model(self._model, chosen))
        must(self._context.value, "llama_init_from_model")
        self._memory = pointer(lib.llama_get_memory(self._context))
        self._size = lib.llama_vocab_n_tokens(pointer(lib.llama_model_get_vocab(self._model)))
        self._batch = lib.llama_batch_init(context, 0, 1)
        self.position = 0

    def step(self, ids: Sequence[int], *, every: bool = False) -> Array:
        """Takes tokens; the logits behind the last one [tokens of the vocabulary], or with `every`
        behind each, [len(ids), tokens of the vocabulary]."""
        batch, count = self._batch, len(ids)
        batch.count = count
        for number, token in enumerate(ids):
            batch.tokens[number], batch.places[number] = token, self.position + number
            batch.sequence_counts[number] = 1
            batch.sequences[number][0] = 0
            batch.wanted[number] = every or number == count - 1
        must(self._lib.llama_decode(self._context, batch) == 0, "llama_decode")
        self.position += count
        if not every:
            found = self._lib.llama_get_logits_ith(self._context, -1)
            return np.ctypeslib.as_array(found, (self._size,)).copy()
        found = self._lib.llama_get_logits(self._context)
        return np.ctypeslib.as_array(found, (count, self._size)).copy()

    def cut(self, position: int) -> None:
        """Forgets the tokens from a position on."""
        self._lib.llama_memory_seq_rm(self._memory, 0, position, -1)
        self.position = position
