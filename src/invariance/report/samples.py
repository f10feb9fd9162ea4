"""What the samples of an environment look like."""

from collections.abc import Mapping, Sequence

import torch
from PIL import Image, ImageDraw
from torch import Tensor

from invariance.core.environment import Environment
from invariance.core.inputs import floats

CELL, GAP, MARGIN = 48, 4, 96
RED, GREEN, ORANGE, BLUE = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (1.0, 0.6, 0.0), (0.0, 0.6, 1.0)
INKS = {2: (RED, GREEN), 4: (RED, ORANGE, GREEN, BLUE)}
"""What each channel is drawn in."""


def contact_sheet(parts: Mapping[str, Sequence[Environment]], columns: int = 16) -> Image.Image:
    """A row of samples for each environment of each part, one label after another."""
    rows = [(part, environment) for part, environments in parts.items() for environment in environments]
    height = len(rows) * (CELL + GAP) + GAP + 20
    sheet = Image.new("RGB", (MARGIN + columns * (CELL + GAP), height), "#e4e4e4")
    pen = ImageDraw.Draw(sheet)
    labels = sorted({label for _, environment in rows for label in environment.y.unique().tolist()})
    labels = labels[:: -(-len(labels) // columns)]  # of numbers, some
    each = columns // len(labels)
    for place, label in enumerate(labels):
        pen.text((MARGIN + place * each * (CELL + GAP), 4), f"y = {label:.3g}", fill="black")
    for row, (part, environment) in enumerate(rows):
        top = 20 + row * (CELL + GAP)
        pen.text((8, top + CELL // 2 - 12), f"{part}\n{environment.name.replace('β=', 'beta ')}", fill="black")
        for place, label in enumerate(labels):
            shown = floats(environment.x[environment.y == label][:each])
            for column, x in enumerate(shown):
                left = MARGIN + (place * each + column) * (CELL + GAP)
                sheet.paste(_picture(x), (left, top))
    return sheet


def _picture(x: Tensor) -> Image.Image:
    """Two channels as red and green, four as two shades of each, one as grey; a vector as a strip of grey."""
    height, width = (CELL, CELL) if x.ndim == 1 else (CELL * side // max(x.shape[1:]) for side in x.shape[1:])
    if x.ndim == 1:
        x = ((x - x.min().clamp(max=-1)) / 2).view(1, 1, -1)
    if x.shape[0] == 1:
        x = x.expand(3, -1, -1)
    if x.shape[0] in INKS:
        x = torch.einsum("chw,cr->rhw", x, torch.tensor(INKS[x.shape[0]]))
    pixels = (x.clamp(0, 1) * 255).byte().permute(1, 2, 0).numpy()
    return Image.fromarray(pixels, "RGB").resize((width, height), Image.Resampling.NEAREST)
