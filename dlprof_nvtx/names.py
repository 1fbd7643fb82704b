"""Names of modules: those of ``named_modules()`` of the model that they belong to."""

from __future__ import annotations

import json
import re
import weakref
from typing import Any

PREFIX = "torch.nn: "
"""Begins the text of every module range: ``torch.nn: layer1.0.conv1 (Conv2d) {...}``."""

# Wrappers that change how a model runs and not what it is: they have no place on a path.
TRANSPARENT = frozenset(
    {
        "DistributedDataParallel",
        "DataParallel",
        "FullyShardedDataParallel",
        "CheckpointWrapper",
        "OffloadWrapper",
        "CompiledModule",
    }
)
COMPILED = "OptimizedModule"
"""What ``torch.compile`` makes of a module: it stands for that one, whose own call is compiled."""
_WRAPPER_PARTS = re.compile(
    r"(?:^|\.)(?:_fsdp_wrapped_module|_checkpoint_wrapped_module|_orig_mod)(?=\.|$)"
)
_PARAMETERS = ("stride", "padding", "dilation", "groups", "output_padding")
_OPS = {
    "BatchNorm1d": "batch_norm",
    "BatchNorm2d": "batch_norm",
    "BatchNorm3d": "batch_norm",
    "SyncBatchNorm": "batch_norm",
    "CELU": "celu",
    "LeakyReLU": "leaky_relu",
    "MSELoss": "mse_loss",
    "NLLLoss": "nll_loss",
    "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "PReLU": "prelu",
    "RMSNorm": "rms_norm",
    "ReLU": "relu",
    "ReLU6": "relu6",
    "SiLU": "silu",
}
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WEIGHTED = re.compile(r"Conv|Linear|Bilinear|LSTM|GRU|RNN")


class Entry:
    """What is known of one module.

    Attributes:
        module: The module itself, not kept alive.
        root: Number of the model that it belongs to.
        name: Path in that model; empty: the model itself.
        kind: Its class's name.
        is_weighted: A layer whose work is a matrix product or a convolution.
        is_leaf: It has no modules in it.
        op: Name of its work where PyTorch's own ops are not recorded; empty: it has modules in it.
        chain: Texts of the ranges that were around its last call.
        calls: How often it was called, where it is a model.
        stands_in: A compiled module is called in its place.
        texts: Text of its range by data type, for a label.
    """

    __slots__ = (
        "calls",
        "chain",
        "is_leaf",
        "is_weighted",
        "kind",
        "module",
        "name",
        "op",
        "parameters",
        "root",
        "stands_in",
        "texts",
    )

    def __init__(self, module: Any, root: int, name: str) -> None:
        self.module = weakref.ref(module)
        self.root = root
        self.name = name
        self.kind = type(module).__name__
        self.is_weighted = bool(_WEIGHTED.search(self.kind)) and hasattr(module, "_parameters")
        self.is_leaf = next(module.children(), None) is None
        self.op = f"torch.nn::{_op_name(self.kind)}" if self.is_leaf else ""
        self.parameters = _parameters(module) if self.is_weighted else {}
        self.chain: tuple[str, ...] = ()
        self.calls = 0
        self.stands_in = False
        self.texts: dict[tuple[str, object, str], str] = {}

    def text(self, label: str, dtype: object, call_site: str = "") -> str:
        """Text of its range."""
        key = (label, dtype, call_site)
        text = self.texts.get(key)
        if text is None:
            more = dict(self.parameters)
            if dtype is not None:
                # A matrix layer tells what it computes in, another one what it is given.
                told = "dtype" if self.is_weighted else "input_dtype"
                more[told] = str(dtype).rpartition(".")[2]
            if call_site:
                more["call_site"] = call_site
            tail = f" {json.dumps(more, separators=(',', ':'))}" if more else ""
            text = self.texts[key] = f"{PREFIX}{label} ({self.kind}){tail}"
        return text


def op_text(entry: Entry, module: Any, args: tuple[Any, ...]) -> str:
    """Text of a range that stands for all work of a module, as PyTorch writes it for an op."""
    tensors = [args[0]] if args else []
    if entry.is_weighted:
        tensors += [module._parameters.get(name) for name in ("weight", "bias")]
    shapes = [list(getattr(tensor, "shape", ())) for tensor in tensors]
    return f"{entry.op}, op_id = 0, sizes = {shapes}, input_op_ids = []"


def _op_name(kind: str) -> str:
    """``MaxPool2d`` is ``max_pool2d``, as PyTorch's own op."""
    return _OPS.get(kind) or _HUMP.sub("_", kind).lower()


def _parameters(module: Any) -> dict[str, Any]:
    """Stride, padding and so on of a convolution; sizes of a linear layer are in its shapes."""
    found = {}
    for name in _PARAMETERS:
        value = getattr(module, name, None)
        if isinstance(value, tuple):
            value = list(value)
        if isinstance(value, (int, str, list)):
            found[name] = value
    if getattr(module, "padding_mode", "zeros") != "zeros":
        found["padding"] = 0  # an op of its own pads
    return found


class Names:
    """Finds the entry of a module; learns a model when it is called for the first time."""

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}
        self._labels: dict[int, str] = {}
        self._roots_of_kind: dict[str, int] = {}
        self._roots = 0

    def get(self, module: Any) -> Entry | None:
        """The entry of a module that is known."""
        entry = self._entries.get(id(module))
        # An id is used again once its module is gone.
        return entry if entry is not None and entry.module() is module else None

    def learn(self, module: Any) -> Entry:
        """Take a module as a model of its own, and learn the names of all modules in it."""
        root = self._roots
        self._roots += 1
        self._labels[root] = self._root_label(module)
        for name, child in module.named_modules():
            self._entries[id(child)] = Entry(child, root, _WRAPPER_PARTS.sub("", name).strip("."))
        own = Entry(module, root, "")
        self._entries[id(module)] = own
        return own

    def compiled(self, module: Any) -> Entry:
        """The entry of the module that a compiled one stands for."""
        original = module._orig_mod
        entry = self.get(original) or self.learn(original)
        entry.stands_in = True
        return entry

    def _root_label(self, module: Any) -> str:
        """Class name; a second model of one class has a number, a bare function object none."""
        kind = type(module).__name__
        if not any(True for _ in module.parameters()):
            return kind
        number = self._roots_of_kind[kind] = self._roots_of_kind.get(kind, 0) + 1
        return kind if number == 1 else f"{kind}[{number}]"

    def label(self, entry: Entry, around: Entry | None) -> str:
        """What a module's range adds to the path inside the one around it."""
        if not entry.name:
            return self._labels[entry.root]
        if around is not None and around.root == entry.root and around.name:
            prefix = f"{around.name}."
            if entry.name.startswith(prefix):
                return entry.name[len(prefix) :]
        return entry.name
