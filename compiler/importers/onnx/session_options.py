"""What ONNX Runtime's sessions are set up with, under its names: options, providers, metadata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from openinfer.runtime.devices import device_of
from openinfer.runtime.errors import InputError, UnsupportedError

DEVICES = {"CPUExecutionProvider": "cpu", "VulkanExecutionProvider": "vulkan"}
"""Devices by the names of providers."""
Provider = str | tuple[str, Any]


class GraphOptimizationLevel(IntEnum):
    """How much a runtime may rewrite a graph; a program is always compiled whole."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Whether nodes may run beside each other; results are the same."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


@dataclass(slots=True)
class SessionOptions:
    """Options of a session. `intra_op_num_threads` counts; what only tunes ONNX Runtime changes nothing.

    A session refuses what it would have to do and does not: profiles, files of optimised models.
    """

    intra_op_num_threads: int = 0
    """CPUs that a step may use; 0 for all of this process."""
    inter_op_num_threads: int = 0
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    enable_profiling: bool = False
    profile_file_prefix: str = ""
    optimized_model_filepath: str = ""
    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    use_deterministic_compute: bool = False
    logid: str = ""
    log_severity_level: int = 2
    log_verbosity_level: int = 0
    _entries: dict[str, str] = field(default_factory=dict[str, str])

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keeps an entry, which tunes ONNX Runtime alone."""
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """The entry that was kept. Raises InputError OI1529 where there is none."""
        if key not in self._entries:
            raise InputError("OI1529", f"no entry {key!r} was given", hint="add it first")
        return self._entries[key]


@dataclass(slots=True)
class RunOptions:
    """Options of a run; those that are here change nothing."""

    logid: str = ""
    log_severity_level: int = 2
    log_verbosity_level: int = 0
    only_execute_path_to_fetches: bool = False


@dataclass(frozen=True)
class ModelMetadata:
    """What a model says of itself; "" and 0 for what it leaves out."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


def metadata_of(model: Any) -> ModelMetadata:
    """The metadata of a ModelProto."""
    return ModelMetadata(
        *(model.producer_name, model.graph.name, model.domain),
        *(model.doc_string, model.graph.doc_string, model.model_version),
        {one.key: one.value for one in model.metadata_props},
    )


def lacking(what: str, instead: str) -> UnsupportedError:
    """A part of ONNX Runtime's interface that there is not."""
    return UnsupportedError("OI1530", f"a session of openinfer has no {what}", hint=instead)


def threads_of(options: object) -> int | None:
    """The CPUs that options ask for, None for all. Raises UnsupportedError OI1530 for files they ask for."""
    if getattr(options, "enable_profiling", False):
        raise lacking(
            "profiles", "leave enable_profiling out; `openinfer trace` shows what a step does"
        )
    if getattr(options, "optimized_model_filepath", ""):
        raise lacking(
            "optimised model to save", "`openinfer import` writes the program and its weights"
        )
    return getattr(options, "intra_op_num_threads", 0) or None


def get_available_providers() -> list[str]:
    """The providers that can run here."""
    return [name for name in DEVICES if _is_available(name)]


def _is_available(provider: str) -> bool:
    device = DEVICES.get(provider)
    return device is not None and device_of(device).unavailable_reason() is None


def get_all_providers() -> list[str]:
    """The providers of this build."""
    return list(DEVICES)


def get_device() -> str:
    """What a session runs on where nobody names a provider."""
    return "CPU"


def chosen_provider(
    providers: Sequence[Provider] | None, options: Sequence[dict[str, Any]] | None
) -> str:
    """The first provider of those given that can run here; the CPU's where none is given.

    Raises InputError OI1529 where there is none, UnsupportedError OI1530 for options of ours.
    """
    given: list[tuple[str, Any]] = [
        (one, {}) if isinstance(one, str) else one for one in providers or ["CPUExecutionProvider"]
    ]
    if options:
        if len(options) != len(given):
            raise InputError(
                "OI1529",
                f"{len(options)} options for {len(given)} providers",
                hint="give a dictionary for each provider",
            )
        given = [(name, more) for (name, _), more in zip(given, options)]
    for name, settings in given:
        if _is_available(name):
            if settings:
                raise lacking(f"options of {name}: {', '.join(settings)}", "leave them out")
            return name
    raise InputError(
        "OI1529",
        f"no provider of {', '.join(name for name, _ in given)} is there",
        hint=f"there are {', '.join(get_available_providers())}",
    )
