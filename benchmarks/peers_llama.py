"""llama.cpp, through the C interface of the library that `xllamacpp` brings.

A decode workload becomes a GGUF file without a vocabulary to speak of; the vector of a token goes in
as an embedding, and what llama.cpp would score the next token with comes out, so that it computes
what the others do. Its cache is filled with the workload's keys and values and holds f32, as ours.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.llama_library import F32, LISTENER, OFF, library, must, pointer, silent
from benchmarks.peers import Run, Setting
from benchmarks.workloads.base import Array, Arrays, Workload
from benchmarks.workloads.decode import BASE, EPSILON, Decode

TOKENS = 32
"""A vocabulary: the file must have one, and its product costs next to nothing."""
ROOM = 256
"""llama.cpp attends to its cache in steps of so many places."""
BYTES = 4


def llama(workload: Workload, setting: Setting) -> Run:
    """One decode step of llama.cpp."""
    assert isinstance(workload, Decode)
    lib = library()
    session = _Session(lib, workload, _model_file(workload, setting), setting.threads)
    return session.run


class _Session:
    """A context whose cache holds what the workload says."""

    def __init__(self, lib: Any, workload: Decode, path: Path, threads: int) -> None:
        self._lib = lib
        self._width, self._place = workload.width, workload.place
        loading = lib.llama_model_default_params()
        model = pointer(lib.llama_model_load_from_file(str(path).encode(), loading))
        must(model.value, "llama_model_load_from_file")
        self._model, self._threads = model, threads
        self._context = self._new_context(workload.place)
        self._memory = pointer(lib.llama_get_memory(self._context))
        self._fill(workload)
        self._batch = lib.llama_batch_init(1, self._width, 1)
        self._batch.count = 1
        self._batch.places[0] = self._place
        self._batch.sequence_counts[0] = 1
        self._batch.sequences[0][0] = 0
        self._batch.wanted[0] = 1
        self._vector = np.ctypeslib.as_array(self._batch.vectors, (self._width,))

    def _new_context(self, batch: int) -> Any:
        """Room for the cache and one token more, and for steps of so many tokens."""
        chosen = self._lib.llama_context_default_params()
        chosen.context = -(-(self._place + 1) // ROOM) * ROOM
        chosen.batch = chosen.micro_batch = batch
        chosen.outputs = 0
        chosen.threads = chosen.batch_threads = self._threads
        chosen.flash, chosen.keys, chosen.values = OFF, F32, F32
        chosen.embeddings = True
        context = pointer(self._lib.llama_init_from_model(self._model, chosen))
        must(context.value, "llama_init_from_model")
        return context

    def log_of_one_token(self) -> list[str]:
        """What llama.cpp says while it makes a context for steps of one token."""
        lines: list[str] = []

        def keep(level: int, text: bytes, data: int) -> None:
            del level, data
            lines.append(text.decode(errors="replace"))

        listener = LISTENER(keep)
        self._lib.llama_log_set(listener, None)
        try:
            self._lib.llama_free(self._new_context(1))
        finally:
            self._lib.llama_log_set(silent, None)
        return lines

    def _fill(self, workload: Decode) -> None:
        """Reads as many tokens as there are places, then replaces what they left in the cache."""
        lib, count = self._lib, workload.place
        batch = lib.llama_batch_init(count, 0, 1)
        batch.count = count
        for place in range(count):
            batch.tokens[place], batch.places[place] = 0, place
            batch.sequence_counts[place], batch.wanted[place] = 1, 0
            batch.sequences[place][0] = 0
        batch.wanted[count - 1] = 1
        must(lib.llama_decode(self._context, batch) == 0, "llama_decode")
        lib.llama_batch_free(batch)
        size = lib.llama_state_seq_get_size(self._context, 0)
        state = np.zeros(size, np.uint8)
        address = state.ctypes.data_as(pointer)
        got = lib.llama_state_seq_get_data(self._context, address, ctypes.c_size_t(size), 0)
        must(got == size, "llama_state_seq_get_data")
        replace_cache(state, [turned(keys, values) for keys, values in workload.cached()])
        lib.llama_memory_seq_rm(self._memory, 0, -1, -1)
        put = lib.llama_state_seq_set_data(self._context, address, ctypes.c_size_t(size), 0)
        must(put == size, "llama_state_seq_set_data")

    def run(self, inputs: Arrays) -> Array:
        """The step at the workload's place; what it leaves in the cache is taken away again."""
        self._vector[:] = inputs["x"][0]
        if self._lib.llama_decode(self._context, self._batch) != 0:
            raise RuntimeError("llama_decode failed")
        found = self._lib.llama_get_embeddings_ith(self._context, 0)
        result = np.ctypeslib.as_array(found, (1, self._width)).copy()
        self._lib.llama_memory_seq_rm(self._memory, 0, self._place, -1)
        return result


def replace_cache(state: Array, cached: Sequence[tuple[Array, Array]]) -> None:
    """Writes keys and values into a saved sequence: its last bytes are the keys of each layer, a row
    for each token, then the values, a row for each element; a dtype and sizes stand before each.

    Raises RuntimeError when they are laid out otherwise.
    """
    end = len(state)
    keys = [pair[0].reshape(len(pair[0]), -1) for pair in cached]
    values = [pair[1].reshape(len(pair[1]), -1).T for pair in cached]
    before = np.array([F32, BYTES * keys[0].shape[1], 0], np.int32).view(np.uint8)
    between = np.array([F32, BYTES, values[0].shape[0]], np.int32).view(np.uint8)
    parts = [(before, rows) for rows in keys] + [(between, rows) for rows in values]
    for head, rows in reversed(parts):
        start = end - rows.nbytes
        if start < len(head) or not np.array_equal(state[start - len(head) : start], head):
            raise RuntimeError("llama.cpp saves its cache in another layout than is known here")
        state[start:end] = np.ascontiguousarray(rows).reshape(-1).view(np.uint8)
        end = start - len(head)


def turned(keys: Array, values: Array) -> tuple[Array, Array]:
    """Keys [tokens, groups, size] with the two halves of a head interleaved, as llama.cpp rotates
    them; values as they are."""
    tokens, groups, size = keys.shape
    halves = keys.reshape(tokens, groups, 2, size // 2)
    return np.ascontiguousarray(halves.swapaxes(2, 3)).reshape(keys.shape), values


def interleaved(weight: Array, size: int) -> Array:
    """The same for the rows of a weight whose heads have `size` rows each."""
    outputs, inputs = weight.shape
    halves = weight.reshape(outputs // size, 2, size // 2, inputs)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(weight.shape)


_NAMES = {
    **{"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output"},
    **{"gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"},
    **{"attention_norm": "attn_norm", "mlp_norm": "ffn_norm"},
}


def _model_file(workload: Decode, setting: Setting) -> Path:
    """The workload's weights as a GGUF file, written now if it is not there yet."""
    source = Path(__file__).read_text(encoding="utf-8")
    path = setting.folder / f"{workload.model}-{workload.edition(source)}.gguf"
    if path.exists():
        return path
    gguf = import_module("gguf")
    part = path.with_suffix(f".{os.getpid()}.part")
    writer = gguf.GGUFWriter(str(part), "llama")
    writer.add_block_count(workload.layers)
    writer.add_context_length(workload.place + ROOM)
    writer.add_embedding_length(workload.width)
    writer.add_feed_forward_length(workload.inner)
    writer.add_head_count(workload.heads)
    writer.add_head_count_kv(workload.groups)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_freq_base(BASE)
    writer.add_rope_dimension_count(workload.size)
    writer.add_vocab_size(TOKENS)
    writer.add_tokenizer_model("none")
    weights = workload.weights(setting.folder)
    random = np.random.default_rng(3).standard_normal((TOKENS, workload.width), np.float32)
    writer.add_tensor("token_embd.weight", random)
    writer.add_tensor("output_norm.weight", weights["last_norm"])
    for layer in range(workload.layers):
        for own, name in _NAMES.items():
            weight = weights[f"layers.{layer}.{own}"]
            weight = interleaved(weight, workload.size) if own in "qk" else weight
            writer.add_tensor(f"blk.{layer}.{name}.weight", weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.replace(path)
    return path
