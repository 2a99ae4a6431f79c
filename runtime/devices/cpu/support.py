"""Whether code that was made for one processor may run on this one."""

from __future__ import annotations

from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.errors import ArtefactError, UnsupportedError
from openinfer.runtime.target import TARGETS, TargetDescription, named_target

_ORDER = list(TARGETS)
"""Kinds of processor, best first."""

_NEVER_EMITTED = frozenset(
    "clflushopt cldemote clwb clzero enqcmd fsgsbase fxsr hreset invpcid kl lwp mwaitx pconfig pku "
    "prefetchi prfchw ptwrite rdpid rdpru rdrnd rdseed rtm serialize sgx shstk tsxldtrk uintr "
    "usermsr waitpkg wbnoinvd widekl xsave xsavec xsaveopt xsaves".split()
)
"""Instructions that code contains only if it asks for them by name, which ours never does. Some
come and go with the kernel or the hypervisor."""


def check_target(key: str) -> None:
    """Raises ArtefactError OI0806 when code for the target `key` cannot run here.

    UnsupportedError OI0781 where no code can run at all.
    """
    host = host_target()
    problem = obstacle(key, host)
    if problem is not None:
        raise ArtefactError(
            "OI0806",
            problem,
            hint="compile it again on this machine, or for all machines of a kind: "
            f"`--target {host.name}`, target='{host.name}'",
        )


def host_can_run(target: str | TargetDescription) -> str | None:
    """Why code for a target ("avx2", "host", or a description) cannot run here, None when it can."""
    try:
        host = host_target()
    except UnsupportedError as error:
        return error.message
    if target == "host":
        return None
    described = named_target(target) if isinstance(target, str) else target
    return obstacle(described.key, host)


def obstacle(key: str, host: TargetDescription) -> str | None:
    """Why code for the target `key` cannot run on `host`, None when it can."""
    kind, triple, _, features = [*key.split(";"), "", "", ""][:4]
    if kind not in _ORDER or not triple:
        return f"the program was compiled for the unknown processor {kind!r:.40}"
    if _system(triple) != _system(host.triple):
        return f"the program was compiled for {triple:.60}, this machine is {host.triple}"
    if _ORDER.index(kind) < _ORDER.index(host.name):
        return f"the program was compiled for {kind}, this processor is {host.name}"
    # Code for the machine that compiled it uses whatever that has; fixed kinds name no features.
    missing = sorted(_enabled(features) - _enabled(host.features) - _NEVER_EMITTED)
    if missing:
        return (
            f"the program was compiled for a processor with {', '.join(missing[:6])}"
            f"{' and more' if len(missing) > 6 else ''}, which this one lacks"
        )
    return None


def rank_here(key: str) -> tuple[bool, int, int]:
    """Sorts targets: those that run here first, the best of them before the others."""
    kind, features = key.partition(";")[0], key.split(";")[3:4]
    place = _ORDER.index(kind) if kind in _ORDER else len(_ORDER)
    try:
        blocked = obstacle(key, host_target()) is not None
    except UnsupportedError:
        blocked = True
    # Of one kind, code for one machine knows more of it than code for all.
    return (blocked, place, 0 if features and features[0] else 1)


def _enabled(features: str) -> set[str]:
    return {name[1:] for name in features.split(",") if name.startswith("+")}


def _system(triple: str) -> tuple[str, str]:
    """Architecture and system; vendors and C libraries do not matter to our code."""
    parts = triple.split("-")
    return parts[0], "linux" if "linux" in parts else parts[-1]
