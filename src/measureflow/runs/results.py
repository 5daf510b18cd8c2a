"""Results in the hand: pictures, tables and files of a path that was never recorded, by the words that runs use.

A saved path is one `.npz` file of plain arrays: the numbers of its measures, and a text with everything else; `load` reads it
back to the same bits.
"""

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from measureflow import checks
from measureflow.diagnostics import Mergers
from measureflow.energies import AbstractEnergy
from measureflow.flows import Outcome, Trajectory
from measureflow.flows.trajectory import REACHED, STOPPED
from measureflow.runs.held import Curves, Held
from measureflow.runs.reader import Run
from measureflow.runs.reader import open as open_run
from measureflow.runs.report import card as report_card
from measureflow.runs.report import figure as run_picture
from measureflow.runs.report import movie as run_movie
from measureflow.words.measures import AbstractMeasureWord
from measureflow.words.series import Watched, observed, unnamed
from measureflow.words.settings import InputError

FORMAT = 1
"""The version of the files of paths."""


class Extended:
    """A run with further curves, and another title if one is given."""

    def __init__(self, run: Run, curves: Curves, title: str):
        self._run, self.title = run, title or run.title
        self.series = run.series | {
            label: Watched(label, np.array([float(of(mu)) for mu in run]) if callable(of) else np.asarray(of), label)
            for label, of in curves.items()
        }

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)


def figure(
    result: Trajectory | Run, *, energy: AbstractEnergy | None = None, series: Curves | None = None, title: str = ""
) -> Any:
    """The picture of a path or a run, with further curves if they are asked for."""
    if isinstance(result, Trajectory):
        return shown(run_picture(Held(result, energy, series or {}, title)))
    curves = dict(series or {}) | ({} if energy is None else {"energy": energy})
    if not curves and not title:
        return shown(run_picture(result))
    return shown(result.word.figure(Extended(result, curves, title)))  # pyright: ignore[reportArgumentType]


def movie(result: Trajectory | Run, file: str | Path, *, title: str = "") -> Path:
    """Write a path or a run as a moving picture."""
    return run_movie(result if isinstance(result, Run) else Held(result, None, {}, title), file)  # pyright: ignore


def dendrogram(tree: Mergers, *, log: bool = False) -> Any:
    """The picture of a tree of mergers."""
    from measureflow.plotting import mergers_figure

    return shown(mergers_figure(tree.times, tree.pairs, tree.groups, tree.end, log=log))


def shown(figure: Any) -> Any:
    """A figure that a notebook shows by itself."""

    def picture() -> bytes:
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=80)
        return buffer.getvalue()

    figure._repr_png_ = picture
    return figure


def card(result: Trajectory | Run) -> str:
    """A path or a run as HTML: title, picture, table and outcome."""
    if isinstance(result, Run):
        return report_card(result)
    if not checks.concrete(result) or np.ndim(result.outcome.kind):
        return f"<div>{result!r}</div>"
    return report_card(Held(result, None, {}, ""))  # pyright: ignore[reportArgumentType]


def to_xarray(result: Trajectory | Run) -> Any:
    """The frames as an xarray dataset."""
    if isinstance(result, Run):
        return result.data
    import xarray

    word = Held(result, None, {}, "").word
    arrays = {
        name: (("time", *word.dimensions[name]), np.asarray(values))
        for name, values in word.arrays(result.measures).items()
    }
    fixed = {name: ((dimension,), values) for name, (dimension, values) in word.fixed(result.final).items()}
    seen = {name: (_named(np.asarray(values)), values) for name, values in observed(result.observed).items()}
    stats = {"outcome": str(result.outcome)} | result.stats
    return xarray.Dataset(arrays | fixed | seen, {"time": np.asarray(result.times)}, stats)


def save(result: Trajectory | Run, file: str | Path) -> Path:
    """Write a path, or a run as one, into a file of plain arrays."""
    path = _path_of(result) if isinstance(result, Run) else result
    held, file = Held(path, None, {}, ""), Path(file)
    if file.suffix != ".npz":
        raise InputError(f"`file` must end in .npz; got {str(file)!r}.")
    text = {
        "format": FORMAT,
        "measure": held.info["measure"],
        "engine": path.engine,
        "observed": list(observed(path.observed)),
    }
    arrays = {f"measures-{i}": leaf for i, leaf in enumerate(jax.tree.leaves(path.measures))}
    arrays |= {f"final-{i}": leaf for i, leaf in enumerate(jax.tree.leaves(path.final))}
    arrays |= {f"outcome-{name}": getattr(path.outcome, name) for name in ("kind", "time", "speed")}
    arrays |= {f"cost-{name}": value for name, value in path.costs.items()}
    arrays |= {f"observed-{name}": values for name, values in observed(path.observed).items()}
    arrays |= {f"like-{name}": values for name, values in held.arrays(0).items()}
    np.savez_compressed(file, text=json.dumps(text), times=path.times, **arrays)
    return file


def load(file: str | Path) -> Trajectory | Run:
    """A path from its file, to the same bits, or the run in a folder.

    >>> mu = mf.Particles(mf.Euclidean(1), [[1.0], [3.0]])
    >>> file = mf.layers(mf.SoftmaxAttention.isotropic(1, beta=0.0), mu, depth=3).save("path.npz")
    >>> mf.load(file)
    Trajectory(4 frames, t = 0 to 3, 2 tokens on R, reached t = 3 in 3 steps)
    """
    file = Path(file)
    if file.is_dir():
        return open_run(file)
    try:
        with np.load(file, allow_pickle=False) as found:
            return _loaded({name: found[name] for name in found.files})
    except FileNotFoundError:
        raise InputError(f"`file`: there is no {str(file)!r}.") from None
    except (OSError, KeyError, ValueError, TypeError, zipfile.BadZipFile) as error:
        said = str(error).split("\n")[0].rstrip(".")
        raise InputError(f"`file`: {str(file)!r} is not a path that `path.save` wrote: {said}.") from None


def _loaded(found: Mapping[str, np.ndarray]) -> Trajectory:
    from measureflow.words.vocabulary import MEASURES

    text = json.loads(str(found["text"]))
    if text["format"] > FORMAT:
        raise ValueError(f"format {text['format']} is of a later version; {FORMAT} is known here")
    word: AbstractMeasureWord = MEASURES[text["measure"]["word"]]
    part = lambda prefix: {k.removeprefix(prefix): v for k, v in found.items() if k.startswith(prefix)}  # noqa: E731
    like = word.restored(text["measure"], part("like-"))
    count, structure = len(jax.tree.leaves(like)), jax.tree.structure(like)
    whole = lambda name: jax.tree.unflatten(structure, [jnp.asarray(found[f"{name}-{i}"]) for i in range(count)])  # noqa: E731
    return Trajectory(
        times=jnp.asarray(found["times"]),
        kept=whole("measures"),
        final=whole("final"),
        outcome=Outcome(**{name: jnp.asarray(value) for name, value in part("outcome-").items()}),
        frames=jnp.asarray(len(found["times"])),
        costs={name: jnp.asarray(value) for name, value in part("cost-").items()},
        engine=text["engine"],
        observed=unnamed({name: found[f"observed-{name}"] for name in text["observed"]}),
    )


def _path_of(run: Run) -> Trajectory:
    """A run in memory."""
    frames = list(run)
    if not frames:
        raise InputError(f"{str(run.path)!r} has no saved frames.")
    times = jnp.asarray(run.times)
    costs = {name: jnp.asarray(value) for name, value in run.stats.items() if isinstance(value, int | float)}
    return Trajectory(
        times=times,
        kept=jax.tree.map(lambda *leaves: jnp.stack(leaves), *frames),
        final=frames[-1],
        # A folder keeps the sentence of its outcome alone; the speed at the end is not known.
        outcome=Outcome(jnp.asarray(REACHED if run.ok else STOPPED), times[-1], jnp.full((), jnp.nan, times.dtype)),
        frames=jnp.asarray(len(frames)),
        costs=costs,
        engine=run.info["engine"],
    )


def _named(values: np.ndarray) -> tuple[str, ...]:
    return ("time", *(f"axis_{values.shape}_{i}" for i in range(1, values.ndim)))
