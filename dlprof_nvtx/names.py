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
        "OptimizedModule",
        "CheckpointWrapper",
        "OffloadWrapper",
        "CompiledModule",
    }
)
_WRAPPER_PARTS = re.compile(
    r"(?:^|\.)(?:_fsdp_wrapped_module|_checkpoint_wrapped_module|_orig_mod)(?=\.|$)"
)
_PARAMETERS = ("stride", "padding", "dilation", "groups", "output_padding")
_WEIGHTED = re.compile(r"Conv|Linear|Bilinear|LSTM|GRU|RNN")


class Entry:
    """What is known of one module.

    Attributes:
        module: The module itself, not kept alive.
        root: Number of the model that it belongs to.
        name: Path in that model; empty: the model itself.
        kind: Its class's name.
        is_weighted: A layer whose work is a matrix product or a convolution.
        chain: Texts of the ranges that were around its last call.
        calls: How often it was called, where it is a model.
        texts: Text of its range by data type, for a label.
    """

    __slots__ = (
        "calls",
        "chain",
        "is_weighted",
        "kind",
        "module",
        "name",
        "parameters",
        "root",
        "texts",
    )

    def __init__(self, module: Any, root: int, name: str) -> None:
        self.module = weakref.ref(module)
        self.root = root
        self.name = name
        self.kind = type(module).__name__
        self.is_weighted = bool(_WEIGHTED.search(self.kind)) and hasattr(module, "_parameters")
        self.parameters = _parameters(module) if self.is_weighted else {}
        self.chain: tuple[str, ...] = ()
        self.calls = 0
        self.texts: dict[tuple[str, object, str], str] = {}

    def text(self, label: str, dtype: object, call_site: str = "") -> str:
        """Text of its range."""
        key = (label, dtype, call_site)
        text = self.texts.get(key)
        if text is None:
            more = dict(self.parameters)
            if dtype is not None:
                more["dtype"] = str(dtype).removeprefix("torch.")
            if call_site:
                more["call_site"] = call_site
            tail = f" {json.dumps(more, separators=(',', ':'))}" if more else ""
            text = self.texts[key] = f"{PREFIX}{label} ({self.kind}){tail}"
        return text


def _parameters(module: Any) -> dict[str, Any]:
    """Stride, padding and so on of a convolution; sizes of a linear layer are in its shapes."""
    found = {}
    for name in _PARAMETERS:
        value = getattr(module, name, None)
        if isinstance(value, tuple):
            value = list(value)
        if isinstance(value, (int, str, list)):
            found[name] = value
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
