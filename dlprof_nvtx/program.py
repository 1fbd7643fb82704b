"""What the program's own files say, before it runs: whether anything in them repeats a step."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

_STEP_WORDS = (".step(", "Trainer", ".fit(", ".generate(")
_MODEL_WORDS = ("nn.", "Module", "torchvision", "from_pretrained")
_REPEATED_WORDS = (".backward(", "no_grad", "inference_mode")
"""A loop of these has steps that can be timed only if it calls a model."""
_LIBRARIES = frozenset({"site-packages", "dist-packages"})
_MOST_SOURCES = 64


def has_loop() -> bool:
    """Whether the program's own files name anything that repeats a step, or it starts others."""
    script = Path(sys.argv[0] if sys.argv else "")
    is_launcher = script.parent.name == "bin" or bool(_LIBRARIES.intersection(script.parts))
    is_launcher = is_launcher or (script.name == "-m" and _is_library_module())
    if is_launcher or "multiprocessing" in " ".join(getattr(sys, "orig_argv", ())):
        return True
    text = "\n".join(_own_sources())

    def has(words: tuple[str, ...]) -> bool:
        return any(word in text for word in words)

    return has(_STEP_WORDS) or (has(_REPEATED_WORDS) and has(_MODEL_WORDS))


def _is_library_module() -> bool:
    """Whether ``python -m MODULE`` runs a library's, as ``torch.distributed.run``.

    ``sys.argv`` does not name it yet while its package, which may be torch, is being imported.
    """
    arguments = getattr(sys, "orig_argv", [])
    module = arguments[arguments.index("-m") + 1] if "-m" in arguments[:-1] else ""
    package = module.partition(".")[0]
    if package in sys.modules:
        return bool(_LIBRARIES.intersection(Path(sys.modules[package].__file__ or "").parts))
    return False


def _own_sources() -> Iterator[str]:
    """Yield the program: the text after ``-c``, the script, or the files of the package."""
    arguments = getattr(sys, "orig_argv", sys.argv)
    if "-c" in arguments[1:-1] and sys.argv[:1] == ["-c"]:
        yield arguments[arguments.index("-c", 1) + 1]
        return
    script = sys.argv[0] if sys.argv else ""
    main = Path(getattr(sys.modules.get("__main__"), "__file__", None) or script)
    names = [main.name]
    if main.name == "__main__.py":
        names += [name for name in _listed(str(main.parent)) if name.endswith(".py")]
    for name in names[:_MOST_SOURCES]:
        try:
            yield (main.parent / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue


def _listed(folder: str) -> list[str]:
    try:
        return sorted(path.name for path in Path(folder).iterdir())
    except OSError:
        return []
