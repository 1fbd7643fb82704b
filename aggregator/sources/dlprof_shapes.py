"""Shapes as NVIDIA's DLProf stores them (JSON and a list of dimension names) to report text."""

from __future__ import annotations

from aggregator.given import GivenShapes
from aggregator.told import read_list


def shape_row(
    names: str, inputs: str, outputs: str, parameters: str, formats: tuple[str, str, str]
) -> GivenShapes:
    """Texts of one execution.

    Args:
        names: JSON list of the inputs' names; mostly empty ones.
        inputs: JSON list of the inputs' shapes.
        outputs: JSON list of the outputs' shapes.
        parameters: JSON list of parameters.
        formats: Dimension names of inputs, outputs and parameters: ``N,C,H,W;K,C,R,S``.
    """
    return GivenShapes(
        inputs=shape_list(inputs, formats[0], names),
        outputs=shape_list(outputs, formats[1]),
        parameters=shape_list(parameters, formats[2]),
    )


def shape_list(shapes_json: str, dimensions: str, names_json: str = "") -> str:
    """``<N:32, C:3, H:32, W:32>; <K:6, C:3, R:3, S:3>; <6>``; empty: nothing recorded."""
    shapes = read_list(shapes_json)
    letters = [part.split(",") for part in dimensions.split(";")] if dimensions else []
    names = read_list(names_json)
    texts = []
    for position, shape in enumerate(shapes):
        sizes = shape if isinstance(shape, list) else [shape]
        own = letters[position] if position < len(letters) else []
        if len(own) == len(sizes) and all(own):
            text = ", ".join(f"{name}:{size}" for name, size in zip(own, sizes, strict=True))
        else:
            text = ", ".join(str(size) for size in sizes)
        name = str(names[position]) if position < len(names) and names[position] else ""
        texts.append(f"{name}: <{text}>" if name else f"<{text}>")
    return "; ".join(texts)
