"""Write a range for each kernel of a graph that TorchInductor compiled: its modules and ops.

Inductor writes a Python function for each graph, with a comment before each kernel. While a graph
is compiled, this module adds the modules, ops, program lines and bytes of the kernel to that
comment, so that they are kept in Inductor's cache. When the function is loaded, each commented call
gets a range with this text. A tag of the cache keeps these functions apart from those without.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import copy
import importlib.util
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from dlprof_nvtx.guard import report
from dlprof_nvtx.imports import after_import
from dlprof_nvtx.kernel_bytes import kernel_bytes
from dlprof_nvtx.state import STATE

PREFIX = "torch.inductor: "
"""Prefix of the text of ranges: ``torch.inductor: triton_poi_fused_add_3 {...}``."""
MARK = "; dlprof: "
"""Precedes the description in a comment."""
CACHE_TAG = "dlprof4"
_METADATA, _LOADING = "torch._inductor.utils", "torch._inductor.runtime.compile_tasks"
_LOADING_BEFORE = "torch._inductor.codecache"
"""What loads Inductor's functions in PyTorch 2.1 and 2.2."""
_MOST_MODULES, _MOST_OPS, _MOST_LINES = 8, 16, 4
_MOST_CHARS = 600
"""The import cuts texts of ranges off after about 1,000, with the name of the kernel in them."""
_VIEWS = frozenset(
    """
alias as_strided detach expand getitem permute reshape select slice split split_with_sizes
squeeze t transpose unbind unsqueeze view view_as _unsafe_view lift_fresh_copy
""".split()  # noqa: SIM905
)
"""Ops that compute nothing: a kernel reads through them."""
_ROOT = re.compile(r"^(?:[LG]\[(['\"])(?P<root>.*?)\1\]|(?P<name>\w+))")
_PART = re.compile(r"\._modules\[(['\"])(.*?)\1\]|\[(['\"])(.*?)\3\]|\[(\d+)\]")
_WRAPPER = re.compile(r"(?:^|\.)(?:_fsdp_wrapped_module|_checkpoint_wrapped_module|_orig_mod)\b")
_LINE = re.compile(r'^  File "(.+)", line (\d+), in ', re.MULTILINE)
_RANDOM = "rng_state"
"""Part of the names of operators that run another one with a random state."""
_LAUNCHES = re.compile(r"\.run$|^extern_kernels\.|^torch\.ops\.|^aten\.|^cpp_|^cutlass_|^triton_")


# --- when the graph is compiled -------------------------------------------------------------------


def describe(nodes: Iterable[Any], *, is_backward: bool, moved: int | str | None = None) -> str:
    """Describe the nodes that a kernel computes, as JSON; empty: they are unknown.

    Args:
        nodes: Nodes of the graph.
        is_backward: Whether it is the graph of a backward pass.
        moved: Bytes that a generated kernel has to move, or why they are unknown; None: not one.
    """
    calls = [node for node in nodes if node.op == "call_function"]
    working = [node for node in calls if _op(node) not in _VIEWS] or calls
    if not working:
        return ""
    placed = [_placed(node) for node in working]
    modules = dict.fromkeys(chain for node in placed if (chain := _modules(node)))
    found: dict[str, Any] = {
        "ops": sorted({_op(node) for node in working})[:_MOST_OPS],
        "modules": [list(chain) for chain in modules][:_MOST_MODULES],
        "pass": _pass(placed) if is_backward else "fprop",
        "lines": list(dict.fromkeys(line for node in placed if (line := _line(node)))),
    }
    found["lines"] = found["lines"][:_MOST_LINES]
    if moved is not None:
        found["bytes"] = moved
    text = _text(found, list(modules))
    for part in ("lines", "modules", "ops"):
        while len(text) > _MOST_CHARS and found[part]:
            found[part].pop()
            text = _text(found, list(modules))
    return text if len(text) <= _MOST_CHARS else ""


def _text(found: dict[str, Any], modules: list[tuple[str, ...]]) -> str:
    hidden = len(modules) - len(found["modules"])
    more = {"more_modules": hidden, "common": list(_common(modules))} if hidden else {}
    return json.dumps({**found, **more}, separators=(",", ":"))


def _op(node: Any) -> str:
    """Name of the op that the program called, without namespace and overload."""
    target = node.meta.get("original_aten") or node.target
    if not hasattr(target, "overloadpacket"):
        # An operator that runs another one, such as ``run_with_rng_state``.
        run = [part for part in getattr(node, "args", ()) if hasattr(part, "overloadpacket")]
        target = run[0] if run else target
    packet = getattr(target, "overloadpacket", target)
    name = getattr(packet, "__name__", "") or str(packet)
    return str(name).rpartition(".")[2]


def _modules(node: Any) -> tuple[str, ...]:
    """The modules around a node, outermost first: ``h.0 (Block)``, ``ln (LayerNorm)``."""
    stack = node.meta.get("fwd_nn_module_stack") or node.meta.get("nn_module_stack") or {}
    chain: list[str] = []
    around = ""
    for path, kind in stack.values():
        name = _module_name(str(path))
        kind_name = getattr(kind, "__name__", "") or str(kind).rpartition(".")[2]
        if kind_name == "OptimizedModule":
            continue
        short = name[len(around) + 1 :] if around and name.startswith(f"{around}.") else name
        chain.append(f"{short} ({kind_name})")
        around = name
    return tuple(chain)


def _placed(node: Any) -> Any:
    """The node, or one that it reads if its own place in the program is unknown.

    PyTorch replaces ops of checkpoints that need a random state, such as attention, by new nodes.
    Others without modules are of the compiled module itself.
    """
    if _RANDOM not in str(node.target) or _modules(node):
        return node
    known = [argument for argument in getattr(node, "all_input_nodes", ()) if _modules(argument)]
    if not known:
        return node
    most, _ = Counter(_modules(argument) for argument in known).most_common(1)[0]
    return next(argument for argument in known if _modules(argument) == most)


def _module_name(path: str) -> str:
    """``L['self']._modules['h'][0].ln`` is ``h.0.ln``; empty: the compiled module itself."""
    found = _ROOT.match(path)
    rest = path[found.end() :] if found is not None else path
    dotted = _PART.sub(lambda part: f".{part[2] or part[4] or part[5]}", rest)
    return _WRAPPER.sub("", dotted).strip(".")


def _common(chains: list[tuple[str, ...]]) -> tuple[str, ...]:
    shortest = min(chains, key=len)
    for depth, name in enumerate(shortest):
        if any(chain[depth] != name for chain in chains):
            return shortest[:depth]
    return shortest


def _pass(nodes: list[Any]) -> str:
    """Whether a backward graph computes a gradient, or the forward pass again."""
    again = all(
        node.meta.get("partitioner_tag") == "is_forward"
        or (node.meta.get("nn_module_stack") and not node.meta.get("fwd_nn_module_stack"))
        for node in nodes
    )
    return "recompute" if again else "bprop"


def _is_backward(lowering: Any, nodes: list[Any]) -> bool:
    """Whether a graph is that of a backward pass; PyTorch before 2.6 does not say it directly."""
    known = getattr(lowering, "is_backward", None)
    if known is not None:
        return bool(known)
    graphs = [node.graph for node in nodes if hasattr(node, "graph")]
    inputs = (node for node in (graphs[0].nodes if graphs else ()) if node.op == "placeholder")
    return any(node.name.startswith("tangents") for node in inputs)


def _line(node: Any) -> str:
    """File and line of the program that called the op; empty: not recorded."""
    frames = _LINE.findall(node.meta.get("stack_trace") or "")
    return ":".join(frames[-1]) if frames else ""


def _nodes_of(schedule: Any, aggregate: Callable[[Any], Iterable[Any]]) -> Iterable[Any]:
    """Nodes that a kernel computes; of a kernel of a library the node that calls it.

    The others of such a kernel are views of its arguments.
    """
    own = getattr(schedule, "origin_node", None)
    if own is not None and own.op == "call_function":
        return [own]
    nodes = list(aggregate(schedule))
    calls = [node for node in nodes if node.op == "call_function"]
    if isinstance(schedule, (list, tuple)) or not calls:
        return nodes
    # What its arguments are made of precedes it in the graph.
    place = {node: at for at, node in enumerate(calls[0].graph.nodes)}
    return [max(calls, key=lambda node: place.get(node, -1))]


def _describe_kernels(module: ModuleType) -> None:
    """Let Inductor add descriptions to its comments."""
    original = getattr(module, "get_kernel_metadata", None)
    aggregate = getattr(module, "aggregate_origins", None)
    if original is None or aggregate is None:
        raise AttributeError("get_kernel_metadata or aggregate_origins")
    if hasattr(original, "_dlprof"):
        return

    def described(schedule: Any, wrapper: Any) -> Any:
        metadata, *others = original(schedule, wrapper)
        try:
            from torch._inductor.virtualized import V

            moved = kernel_bytes(schedule, V.graph) if isinstance(schedule, (list, tuple)) else None
            nodes = list(_nodes_of(schedule, aggregate))
            text = describe(nodes, is_backward=_is_backward(V.graph, nodes), moved=moved)
        except Exception:  # noqa: BLE001 - internals of PyTorch; the kernel stays without a range
            text = ""
        return (f"{metadata}{MARK}{text}" if metadata and text else metadata, *others)

    described._dlprof = True  # type: ignore[attr-defined]
    # Modules of other packages may import something when they are asked for an attribute.
    for name, loaded in list(sys.modules.items()):
        if name.startswith("torch.") and vars(loaded).get("get_kernel_metadata") is original:
            loaded.get_kernel_metadata = described  # type: ignore[attr-defined]
    _tag_cache()


def _tag_cache() -> None:
    config = sys.modules.get("torch.compiler.config")
    tag = getattr(config, "cache_key_tag", None)
    if isinstance(tag, str) and CACHE_TAG not in tag:
        config.cache_key_tag = f"{tag}{CACHE_TAG}"  # type: ignore[union-attr]


# --- when its function is loaded ------------------------------------------------------------------


def open_kernel(text: str) -> None:
    """Open the range of a kernel."""
    try:
        if STATE.backend is not None:
            STATE.backend.push(text)
    except Exception as error:  # noqa: BLE001 - markers must never stop a training
        report(error)


def close_kernel() -> None:
    """Close the range of a kernel."""
    try:
        if STATE.backend is not None:
            STATE.backend.pop()
    except Exception as error:  # noqa: BLE001 - markers must never stop a training
        report(error)


def with_ranges(source: str) -> ast.Module:
    """Parse a function that Inductor wrote, and add a range to each described kernel call."""
    described = {
        number: text.partition(MARK)[2]
        for number, line in enumerate(source.splitlines(), 1)
        if MARK in (text := line.strip()) and text.startswith("#")
    }
    tree = ast.parse(source)
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        _mark(function, function.lineno, described)
    index = next(i for i, statement in enumerate(tree.body) if not _is_future(statement))
    tree.body.insert(index, ast.parse(_IMPORT).body[0])
    return ast.fix_missing_locations(tree)


def _mark(block: Any, last: int, described: dict[int, str]) -> int:
    """Add ranges in a block; a comment belongs to the first call after it. Returns the last one."""
    for field in ("body", "orelse", "finalbody"):
        statements: list[ast.stmt] = []
        for statement in getattr(block, field, ()):
            name = _launched(statement)
            before = [line for line in described if last < line < statement.lineno] if name else []
            if before:
                last = before[-1]
                statements += _inside_range(statement, f"{PREFIX}{name} {described[last]}")
                continue
            if isinstance(statement, (ast.With, ast.If, ast.For, ast.While, ast.Try)):
                last = _mark(statement, last, described)
            statements.append(statement)
        if statements:
            setattr(block, field, statements)
    return last


_IMPORT = (
    f"from {__name__} import STATE as _dlprof_state, open_kernel as _dlprof_open_kernel, "
    "close_kernel as _dlprof_close_kernel"
)


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _launched(statement: ast.stmt) -> str:
    """Name of the kernel that a statement launches; empty: none."""
    if not isinstance(statement, (ast.Expr, ast.Assign)) or not isinstance(
        statement.value, ast.Call
    ):
        return ""
    name = _dotted(statement.value.func)
    if not _LAUNCHES.search(name):
        return ""
    return name[: -len(".run")] if name.endswith(".run") else name


def _dotted(function: ast.expr) -> str:
    """``torch.ops.aten.mm.default``; empty: not a name."""
    if isinstance(function, ast.Name):
        return function.id
    if not isinstance(function, ast.Attribute):
        return ""
    owner = _dotted(function.value)
    return f"{owner}.{function.attr}" if owner else ""


def _inside_range(statement: ast.stmt, text: str) -> list[ast.stmt]:
    """The statement in a range while markers are written, else as it is: that costs no call."""
    source = (
        f"if _dlprof_state.on:\n _dlprof_open_kernel({text!r})\n"
        " try: pass\n finally: _dlprof_close_kernel()\nelse: pass"
    )
    branch: Any = ast.parse(source).body[0]
    ast.increment_lineno(branch, statement.lineno - 1)
    branch.body[1].body[:], branch.orelse[:] = [statement], [copy.deepcopy(statement)]
    return [branch]


def _compiled(source: Any, *args: Any, **kwargs: Any) -> Any:
    """Compile as the builtin does, with ranges around described kernels."""
    if isinstance(source, str) and MARK in source:
        # What is wrong with a source is reported by the builtin.
        with contextlib.suppress(Exception):
            source = with_ranges(source)
    return builtins.compile(source, *args, **kwargs)


def _load_with_ranges(module: ModuleType) -> None:
    """Let Inductor load its functions with ranges."""
    if not hasattr(module, "_reload_python_module"):
        raise AttributeError("_reload_python_module")
    module.compile = _compiled  # type: ignore[attr-defined]


def _load_with_ranges_before(module: ModuleType) -> None:
    if importlib.util.find_spec(_LOADING.rpartition(".")[0]) is None:
        module.compile = _compiled  # type: ignore[attr-defined]


def patch() -> None:
    """Wrap the functions of Inductor, now or when they are imported."""
    changes = {_METADATA: _describe_kernels, _LOADING: _load_with_ranges}
    after_import({**changes, _LOADING_BEFORE: _load_with_ranges_before})
