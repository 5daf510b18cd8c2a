"""A run as a moving picture: a GIF by pillow, or an MP4 where ffmpeg is installed."""

import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image
from scipy.spatial import KDTree

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.plotting.backdrops import GLASS_TONE
from measureflow.plotting.captions import clock_times, fitting
from measureflow.plotting.colours import FAINT, INK, cluster_colours
from measureflow.plotting.record import Recorded
from measureflow.plotting.tokens import draw_tokens
from measureflow.plotting.view import view_of

DPI = 100
"""Pixels per inch of a movie."""

VIEW_FRAMES = 9
"""How many frames decide the view of a movie."""

LAST_FRAME_SECONDS = 1.5
"""Seconds for which a GIF rests on its last frame."""


def movie(
    path: str | Path,
    run: Recorded,
    *,
    labels: Numbers | None = None,
    fps: float | int = 20,
    size: int = 480,
    turn: float | int = 60,
    letter: str = "x",
) -> Path:
    """Write a run of tokens as a movie `size` pixels wide and return its path.

    The suffix chooses the format: `.gif`, or `.mp4` if ffmpeg is on the path. In three dimensions the viewer walks
    `turn` degrees around the tokens during the movie. `labels` `(n,)` give the colours, `letter` names coordinates.
    """
    path = Path(path)
    checks.positive("fps", fps)
    write = _writer(path)
    labels = np.zeros(len(run.at(-1).points), int) if labels is None else labels
    write(path, _camera(run, labels, size, turn, letter), len(run.times), fps, cluster_colours(labels))
    return path


def _writer(path: Path) -> Callable[..., None]:
    """The function for a suffix, or a sentence before any frame is drawn."""
    if path.suffix.lower() == ".gif":
        return _write_gif
    if path.suffix.lower() != ".mp4":
        raise ValueError(f"`path` must end in .gif or .mp4; got {path.name!r}.")
    if shutil.which("ffmpeg") is None:
        raise RuntimeError(
            f"An MP4 needs the program ffmpeg, which is not on the path; install it, or write {path.stem}.gif instead."
        )
    return _write_mp4


def _camera(run: Recorded, labels: Numbers, size: int, turn: float | int, letter: str) -> Callable[[int], np.ndarray]:
    """A function that draws frame `i` and returns its pixels `(height, width, 3)`; the figure is used again."""
    times, title, space = run.times, run.title, run.at(-1).space
    width = 2 * round(size / 2)  # video coders want even sides
    height = width + 2 * round(width * (0.1 if title else 0.05) / 2)
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    framed = not space.spherical and space.dim != 3
    room = 0.15 if framed else 0.07 if space.dim > 3 else 0.02
    ax = figure.add_axes((room, room * width / height, 0.98 - room, (0.98 - room) * width / height))
    clock = figure.text(0.5, 1.005 * width / height, "", fontsize=13 * width / 480, color=INK, ha="center", va="center")
    bar = Line2D([0, 0], [0.003, 0.003], color=FAINT, linewidth=4)
    figure.add_artist(bar)
    letters = fitting(title, width / DPI)
    figure.text(0.5, 0.99, title, fontsize=letters, color=INK, ha="center", va="top", parse_math=False)
    view, names, scale = view_of(_sample(run), space, labels=labels, letter=letter), clock_times(times), width / DPI / 3

    def shot(i: int) -> np.ndarray:
        part = i / max(len(times) - 1, 1)
        ax.clear()
        seen = view.turned(turn * (part - 1))  # the walk ends on the side that `view_of` chose for the last tokens
        mu = run.at(i)
        draw_tokens(ax, mu.points, space, labels=labels, weights=mu.weights, view=seen, scale=scale)
        clock.set_text(f"t = {names[i]}")
        bar.set_xdata([0, part])
        canvas.draw()
        return np.array(canvas.buffer_rgba())[..., :3]

    return shot


def _sample(run: Recorded) -> np.ndarray:
    """The tokens of some frames, the first and last among them, which decide the view."""
    some = np.unique(np.linspace(0, len(run.times) - 1, min(VIEW_FRAMES, len(run.times))).round().astype(int))
    return np.stack([np.asarray(run.at(int(i)).points, float) for i in some])


def _write_gif(path: Path, shot: Callable[[int], np.ndarray], k: int, fps: float | int, colours: np.ndarray) -> None:
    """One palette for all frames, so that the still parts do not flicker."""
    palette = _palette([shot(i) for i in sorted({0, k // 2, k - 1})], colours)
    nearest = _nearest(palette)

    def frame(i: int) -> Image.Image:
        red, green, blue = np.moveaxis(shot(i) >> 2, -1, 0)
        image = Image.fromarray(nearest[red, green, blue])
        image.putpalette(palette.ravel().tolist())
        return image

    durations = [1000 / fps] * (k - 1) + [1000 * LAST_FRAME_SECONDS]
    rest = (frame(i) for i in range(1, k))
    frame(0).save(path, save_all=True, append_images=rest, duration=durations, loop=0, disposal=1)


def _palette(samples: list[np.ndarray], colours: np.ndarray) -> np.ndarray:
    """256 colours: white and the tokens' own exactly, since they cover few pixels, the others learned from some frames."""
    tones = np.unique(colours, axis=0)
    tones = np.concatenate([[[1.0, 1.0, 1.0]], tones, 0.35 * tones + 0.65 * np.array(GLASS_TONE)])[:64]
    learned = Image.fromarray(np.concatenate(samples)).quantize(256 - len(tones)).getpalette() or []
    return np.concatenate([np.round(255 * tones), np.reshape(learned, (-1, 3))]).astype(np.uint8)[:256]


def _nearest(palette: np.ndarray) -> np.ndarray:
    """The index of the palette's nearest colour for each colour with six bits a channel; pillow's own search is coarser."""
    levels = np.arange(64) * 255 / 63
    grid = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), -1)
    return np.asarray(KDTree(palette).query(grid)[1], np.uint8)


def _write_mp4(path: Path, shot: Callable[[int], np.ndarray], k: int, fps: float | int, _: np.ndarray) -> None:
    """The pixels of each frame, handed to ffmpeg as they are drawn."""
    first = shot(0)
    shape = f"{first.shape[1]}x{first.shape[0]}"
    given = f"-f rawvideo -pix_fmt rgb24 -s {shape} -r {fps:g} -i -".split()
    command = ["ffmpeg", "-y", "-loglevel", "error", *given, "-pix_fmt", "yuv420p", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as coder:
        with suppress(BrokenPipeError):  # then ffmpeg has ended, and says below why
            for i in range(k):
                cast(IO[bytes], coder.stdin).write((shot(i) if i else first).tobytes())
        said = coder.communicate()[1].decode().strip()
    if coder.returncode:
        raise RuntimeError(f"ffmpeg could not write {path}: {said or 'it gave no reason'}. A .gif needs no ffmpeg.")
