"""Names of modules: their names in ``named_modules()`` of their model."""

from __future__ import annotations

import json
import re
import weakref
from typing import Any

PREFIX = "torch.nn: "
"""Prefix of the text of module ranges: ``torch.nn: layer1.0.conv1 (Conv2d) {...}``."""

# Wrappers that are not part of the path of a module.
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
"""Class of a module that ``torch.compile`` returns; it represents the compiled module."""
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
    """A module and its names.

    Args:
        module: The module, of which a weak reference is kept.
        root: Number of its model.
        name: Path in that model; empty for the model itself.
    """

    def __init__(self, module: Any, root: int, name: str) -> None:
        self.module = weakref.ref(module)
        self.root = root
        self.name = name
        self.kind = type(module).__name__
        # Whether it is a layer that computes a matrix product or a convolution.
        self.is_weighted = bool(_WEIGHTED.search(self.kind)) and hasattr(module, "_parameters")
        self.is_leaf = next(module.children(), None) is None
        # Name of its op if the ops of PyTorch are not recorded; empty if it contains modules.
        self.op = f"torch.nn::{_op_name(self.kind)}" if self.is_leaf else ""
        self.parameters = _parameters(module) if self.is_weighted else {}
        self.chain: tuple[str, ...] = ()  # Texts of the ranges around its last call.
        self.label = ""  # Path below the innermost of them.
        self.calls = 0  # Number of its calls, for models.
        self.shape_calls = 0  # Number of those with recorded shapes.
        # Number of its calls by the shapes of its inputs, for models.
        self.signatures: dict[tuple[Any, ...], int] = {}
        self.stands_in = False  # Whether a compiled module is called instead of it.
        # Text of its range, by label, data type and call site.
        self.texts: dict[tuple[str, object, str], str] = {}

    def text(self, label: str, dtype: object, call_site: str = "") -> str:
        """Return the text of its range."""
        key = (label, dtype, call_site)
        text = self.texts.get(key)
        if text is None:
            more = dict(self.parameters)
            if dtype is not None:
                # Weighted layers have the data type of the computation, others that of the input.
                key_name = "dtype" if self.is_weighted else "input_dtype"
                more[key_name] = str(dtype).rpartition(".")[2]
            if call_site:
                more["call_site"] = call_site
            tail = f" {json.dumps(more, separators=(',', ':'))}" if more else ""
            text = self.texts[key] = f"{PREFIX}{label} ({self.kind}){tail}"
        return text


def op_text(entry: Entry, module: Any, args: tuple[Any, ...]) -> str:
    """Return the text of a range for all work of a module, as PyTorch writes it for an op."""
    tensors = [args[0]] if args else []
    if entry.is_weighted:
        tensors += [module._parameters.get(name) for name in ("weight", "bias")]
    shapes = [list(getattr(tensor, "shape", ())) for tensor in tensors]
    return f"{entry.op}, op_id = 0, sizes = {shapes}, input_op_ids = []"


def _op_name(kind: str) -> str:
    """Convert a class name to the name of its op: ``MaxPool2d`` is ``max_pool2d``."""
    return _OPS.get(kind) or _HUMP.sub("_", kind).lower()


def _parameters(module: Any) -> dict[str, Any]:
    """Return stride, padding and so on of a convolution."""
    found = {}
    for name in _PARAMETERS:
        value = getattr(module, name, None)
        if isinstance(value, tuple):
            value = list(value)
        if isinstance(value, (int, str, list)):
            found[name] = value
    if getattr(module, "padding_mode", "zeros") != "zeros":
        found["padding"] = 0  # another op does the padding
    return found


class Names:
    """Entries of modules; those of a model are made when it is called for the first time."""

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}
        self._labels: dict[int, str] = {}
        self._roots_of_kind: dict[str, int] = {}
        self._roots = 0

    def get(self, module: Any) -> Entry | None:
        """Return the entry of a module; None if there is none."""
        entry = self._entries.get(id(module))
        # An id may be used again after its module was deleted.
        return entry if entry is not None and entry.module() is module else None

    def learn(self, module: Any) -> Entry:
        """Make the entries of a model and of all modules in it."""
        root = self._roots
        self._roots += 1
        self._labels[root] = self._root_label(module)
        for name, child in module.named_modules():
            self._entries[id(child)] = Entry(child, root, _WRAPPER_PARTS.sub("", name).strip("."))
        own = Entry(module, root, "")
        self._entries[id(module)] = own
        return own

    def compiled(self, module: Any) -> Entry:
        """Return the entry of the module that a compiled module represents."""
        original = module._orig_mod
        entry = self.get(original) or self.learn(original)
        entry.stands_in = True
        return entry

    def _root_label(self, module: Any) -> str:
        """Return the class name, numbered from the second model with parameters on."""
        kind = type(module).__name__
        if not any(True for _ in module.parameters()):
            return kind
        number = self._roots_of_kind[kind] = self._roots_of_kind.get(kind, 0) + 1
        return kind if number == 1 else f"{kind}[{number}]"

    def label(self, entry: Entry, around: Entry | None) -> str:
        """Return the path of a module relative to the module around it."""
        if not entry.name:
            return self._labels[entry.root]
        if around is not None and around.root == entry.root and around.name:
            prefix = f"{around.name}."
            if entry.name.startswith(prefix):
                return entry.name[len(prefix) :]
        return entry.name
