"""Names of modules: their names in ``named_modules()`` of their model."""

from __future__ import annotations

import json
import re
import sys
import threading
from typing import Any

from dlprof_nvtx.guard import ById, fields, has_parameters, submodules

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
_COMPILED = "OptimizedModule"
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
UNKNOWN_SIZE = -1
"""A size that is not a number, in a graph that is traced."""
_WEIGHTED = re.compile(r"Conv|Linear|Bilinear|LSTM|GRU|RNN")


class Model:
    """What the modules of a model share.

    Args:
        label: Its name: the class, numbered from the second model with parameters on.
        key: What calls of the same kernels have in common; it is never a number again.
    """

    def __init__(self, label: str, key: object) -> None:
        self.label, self.key = label, key


class Entry:
    """A module's names.

    Args:
        module: The module, which is not kept.
        model: Its model.
        name: Path in that model; empty for the model itself.
    """

    def __init__(self, module: Any, model: Model, name: str) -> None:
        self.model = model
        self.name = name
        self.kind = type(module).__name__
        values = fields(module)
        # Whether it is a layer that computes a matrix product or a convolution.
        self.is_weighted = bool(_WEIGHTED.search(self.kind)) and "_parameters" in values
        self.is_leaf = not values.get("_modules")
        # Name of its op if the ops of PyTorch are not recorded; empty if it contains modules.
        self.op = f"torch.nn::{_op_name(self.kind)}" if self.is_leaf else ""
        self.parameters = _parameters(values) if self.is_weighted else {}
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
        parameters = fields(module)["_parameters"]
        tensors += [parameters.get(name) for name in ("weight", "bias")]
    shapes = [list(shape_of(tensor)) for tensor in tensors]
    return f"{entry.op}, op_id = 0, sizes = {shapes}, input_op_ids = []"


def shape_of(tensor: Any) -> tuple[int, ...]:
    """Return the shape of a tensor; empty if it has none yet, or is none.

    The sizes of traced tensors are symbols, whose comparison would change the trace.
    """
    if not issubclass(type(tensor), sys.modules["torch"].Tensor):
        return ()
    try:
        sizes = tensor.shape
    except RuntimeError:  # A parameter that is not initialized.
        return ()
    return tuple(size if type(size) is int else UNKNOWN_SIZE for size in sizes)


def _op_name(kind: str) -> str:
    """Convert a class name to the name of its op: ``MaxPool2d`` is ``max_pool2d``."""
    return _OPS.get(kind) or _HUMP.sub("_", kind).lower()


def _parameters(values: dict[str, Any]) -> dict[str, Any]:
    """Return stride, padding and so on of a convolution."""
    found = {}
    for name in _PARAMETERS:
        value = values.get(name)
        if isinstance(value, tuple):
            value = list(value)
        if isinstance(value, (int, str, list)):
            found[name] = value
    if values.get("padding_mode", "zeros") != "zeros":
        found["padding"] = 0  # another op does the padding
    return found


def compiled_module(module: Any) -> Any:
    """Return what ``torch.compile`` made a module of; None: it did not make this module."""
    if type(module).__name__ != _COMPILED:
        return None
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    kind = getattr(dynamo, _COMPILED, None)
    if kind is None or not issubclass(type(module), kind):
        return None  # A class of the program has this name.
    return fields(module)["_modules"].get("_orig_mod")


class Names:
    """Entries of modules; those of a model are made when it is called for the first time."""

    def __init__(self) -> None:
        self._entries = ById()
        self._models_of_kind: dict[str, int] = {}
        self._models = 0
        self._lock = threading.RLock()

    def forget_calls(self) -> None:
        """Count the calls of all modules anew: another profile begins."""
        for _, entry in self._entries.values():
            entry.calls = entry.shape_calls = 0
            entry.signatures.clear()

    def find(self, module: Any) -> Entry:
        """Return the entry of a module, or of the module that it stands for."""
        original = compiled_module(module)
        named = module if original is None else original
        entry: Entry = self._entries.get(named) or self._learn(named)
        if original is not None:
            entry.stands_in = True
        return entry

    def _learn(self, module: Any) -> Entry:
        with self._lock:
            model = self._model(module)
            for name, child in submodules(module):
                path = _WRAPPER_PARTS.sub("", name).strip(".")
                self._entries.put(child, Entry(child, model, path))
            own = Entry(module, model, "")
            self._entries.put(module, own)
            return own

    def _model(self, module: Any) -> Model:
        """Return a new model; those without parameters, such as losses, share name and key."""
        kind = type(module).__name__
        if not has_parameters(module):
            return Model(kind, (kind, sum(1 for _ in submodules(module))))
        number = self._models_of_kind[kind] = self._models_of_kind.get(kind, 0) + 1
        self._models += 1
        return Model(kind if number == 1 else f"{kind}[{number}]", self._models)

    def label(self, entry: Entry, around: Entry | None) -> str:
        """Return the path of a module relative to the module around it."""
        if not entry.name:
            return entry.model.label
        if around is not None and around.model is entry.model and around.name:
            prefix = f"{around.name}."
            if entry.name.startswith(prefix):
                return entry.name[len(prefix) :]
        return entry.name
