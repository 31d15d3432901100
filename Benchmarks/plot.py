"""Plots as PNG: one panel above the other, with the same x axis."""

import dataclasses
from pathlib import Path

import matplotlib

matplotlib.use("agg")
matplotlib.rcParams.update({"font.size": 9, "path.simplify_threshold": 1.0})

from matplotlib import pyplot  # noqa: E402  (after the backend is chosen)


@dataclasses.dataclass
class Panel:
    """One panel: lines by name, each an (xs, ys)."""

    label: str
    lines: dict
    log: bool = False


def write(path, title, panels, x_label, shades=(), width=9, height=1.9):
    """`shades` are (from, to) on the x axis, drawn grey behind all panels."""
    figure, axes = pyplot.subplots(len(panels), 1, sharex=True, squeeze=False, figsize=(width, height * len(panels) + 0.8))
    figure.suptitle(title, fontsize=11)
    for axis, panel in zip(axes[:, 0], panels):
        for start, end in shades:
            axis.axvspan(start, end, color="0.9", linewidth=0)
        for name, (xs, ys) in panel.lines.items():
            axis.plot(xs, ys, label=name, linewidth=1)
        axis.set_ylabel(panel.label)
        if panel.log:
            axis.set_yscale("log")
        else:
            axis.set_ylim(bottom=0)
        axis.grid(True, color="0.85", linewidth=0.5)
        if len(panel.lines) > 1:
            axis.legend(loc="best", fontsize=8, frameon=False)
    axes[-1, 0].set_xlabel(x_label)
    figure.tight_layout()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", dpi=100)
    pyplot.close(figure)
