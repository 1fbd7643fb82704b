"""The ranges that dlprof_nvtx writes around the kernels of a graph that TorchInductor compiled."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from aggregator.system.untrusted_json import read_json
from aggregator.texts import say

PREFIX: Final = "torch.inductor: "
FPROP, BPROP, RECOMPUTE = "fprop", "bprop", "recompute"
_RANGE: Final = re.compile(r"^torch\.inductor: (?P<kernel>\S+) (?P<more>\{.*\})$")
_GENERATED: Final = re.compile(r"^triton_[a-z]{3}_(?P<ops>fused_\w*?)(?:_\d+)?$")
_GENERATED_CALL: Final = re.compile(r"^triton_(?:[a-z]{3}_)?(?:fused_\w*|mm\w*|bmm\w*)$")
_OUTSIDE_MODEL: Final = re.compile(
    r"^(?:Torch-Compiled Region|TorchDynamo |AOTDispatcher |Pregraph bytecode|CompiledFunction"
    r"|## Call CompiledFxGraph|CompiledFxGraph)"
)
"""Groups around compiled code that are no modules."""
_MOST_SHOWN: Final = 8
_MAX_BYTES: Final = 1 << 53
_NO_BYTES: Final = {
    "values": say("which elements it moves depends on values"),
    "masked": say("it moves some elements under a mask"),
    "dynamic": say("the sizes of its arrays are not constants"),
    "overlap": say("elements that it accesses several times cannot be counted"),
}
"""Reasons by the code that dlprof_nvtx records, see dlprof_nvtx/kernel_bytes.py."""
_OTHER: Final = say("what this compiled kernel moves is not known")
NOT_RECORDED: Final = say("what this compiled kernel moves was not recorded")


@dataclass(frozen=True)
class CompiledKernel:
    """What the compiler recorded about one place at which a kernel is launched."""

    label: str  # Op that it computes, ``mm``, or all that were fused, ``fused_add_mul``.
    ops: tuple[str, ...]  # Ops that it computes.
    # Modules that it computes for, each as the names from the outermost to the innermost one.
    modules: tuple[tuple[str, ...], ...]
    common: tuple[str, ...]  # Names of the innermost module that contains all of them.
    direction: str  # ``fprop``, ``bprop`` or ``recompute``.
    lines: tuple[str, ...]  # Files and lines of the program.
    num_modules: int  # Number of modules, of which ``modules`` may be the first.
    num_bytes: int | None = None  # Bytes that it has to move; None: unknown. Unit: bytes.
    no_bytes: str = ""  # Why they are unknown; empty: they are known, or it is of a library.

    @property
    def shared(self) -> str:
        """The modules, if there are several: paths below the compiled module."""
        if self.num_modules < 2:
            return ""
        shown = [" / ".join(chain) or "." for chain in self.modules[:_MOST_SHOWN]]
        more = self.num_modules - len(shown)
        return ", ".join([*shown, *([f"+{more}"] if more else [])])


def is_generated_call(name: str) -> bool:
    """Return whether a range is PyTorch's own around the launch of a generated kernel."""
    return _GENERATED_CALL.match(name) is not None


def is_compiled_region(name: str) -> bool:
    """Return whether a range is PyTorch's own around compiled code."""
    return _OUTSIDE_MODEL.match(name) is not None


def read_kernel(name: str) -> CompiledKernel | None:
    """Read the name of a range, or None if it is none of these."""
    found = _RANGE.match(name)
    if found is None:
        return None
    more = read_json(found["more"])
    if not isinstance(more, dict):
        return None
    ops = tuple(_texts(more.get("ops")))
    modules = tuple(
        tuple(_module(part) for part in _texts(chain)) for chain in _list(more.get("modules"))
    )
    hidden = more.get("more_modules")
    hidden = hidden if isinstance(hidden, int) and hidden > 0 else 0
    common = _common(modules)
    if hidden:
        common = _common((common, tuple(_module(part) for part in _texts(more.get("common")))))
    direction = more.get("pass")
    moved = more.get("bytes")
    is_known = type(moved) is int and 0 <= moved < _MAX_BYTES
    return CompiledKernel(
        label=_label(found["kernel"], ops),
        ops=ops,
        modules=modules,
        common=common,
        direction=direction if direction in (BPROP, RECOMPUTE) else FPROP,
        lines=tuple(_texts(more.get("lines"))),
        num_modules=len(modules) + hidden,
        num_bytes=moved if is_known else None,
        no_bytes="" if is_known or not _GENERATED.match(found["kernel"]) else _reason(moved),
    )


def _reason(code: Any) -> str:
    return _NO_BYTES.get(code, _OTHER) if isinstance(code, str) else NOT_RECORDED


def module_path(path: str, kernel: CompiledKernel) -> str:
    """Return the path of a kernel's module from the path of the groups around the compiled code."""
    outer = [part for part in path.split("/") if part and not _OUTSIDE_MODEL.match(part)]
    inner = [part.replace("/", "|") for part in kernel.common]
    if inner and outer[-1:] == inner[:1]:
        del inner[0]  # The compiled function calls the model that is around it.
    again = [RECOMPUTE] if kernel.direction == RECOMPUTE else []
    parts = [*outer, *inner, *again]
    return f"/{'/'.join(parts)}/" if parts else "/"


def _label(kernel: str, ops: tuple[str, ...]) -> str:
    generated = _GENERATED.match(kernel)
    if generated is not None:
        # A kernel may be launched again for other ops, which it is not named after.
        return f"fused_{'_'.join(ops)}" if ops else generated["ops"].rstrip("_")
    if kernel.startswith(("extern_kernels.", "torch.ops.", "aten.")) and len(ops) == 1:
        return ops[0]
    name = kernel.removesuffix(".default")
    return name.rpartition(".")[2] or name


def _module(text: str) -> str:
    """Return ``h.0`` for ``h.0 (Block)``, and ``GPT`` for the compiled module itself, ``(GPT)``."""
    name, _, kind = text.partition(" (")
    return name.strip() or kind.rstrip(")") or text.strip("() ")


def _common(chains: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    if not chains:
        return ()
    levels = takewhile(lambda names: len(set(names)) == 1, zip(*chains, strict=False))
    return tuple(names[0] for names in levels)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: Any) -> list[str]:
    return [item for item in _list(value) if isinstance(item, str)]
