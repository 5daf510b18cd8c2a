"""`measureflow simulate`: tokens or their limit in motion, saved and pictured."""

from typing import TYPE_CHECKING

from measureflow.cli import prepare_jax
from measureflow.cli.options import parse
from measureflow.cli.progress import Bar, print_table, print_written
from measureflow.runs.config import Simulation

if TYPE_CHECKING:
    from pathlib import Path

    from measureflow.runs.simulate import Progress


def main(argv: list[str]) -> int:
    """Parse, run with a progress bar, print the table, draw the figure and name what was written."""
    config = parse(Simulation, argv, "measureflow simulate")
    prepare_jax()
    from rich.console import Console

    from measureflow.runs.simulate import simulate

    console = Console()
    with Bar(console, config.time) as bar:
        progress = simulate(config, lambda progress: _show(bar, progress))
    print_table(console, _rows(config, progress))
    console.print(str(progress.outcome))
    print_written(console, _pictures(config, progress) | {"data": progress.path / "data.zarr"})
    return 0


def _show(bar: Bar, progress: "Progress") -> None:
    bar.begin()
    if progress.outcome is not None:
        bar.reach(float(progress.outcome.time), _state(progress))


def _state(progress: "Progress") -> str:
    """The last of the series that tells most, in words."""
    name = next((name for name in ("clusters", "spread", "peaks", "order") if name in progress.series), None)
    if name is None:
        return ""
    last = progress.series[name][-1]
    return f"{last} {name if last != 1 else name[:-1]}" if name in ("clusters", "peaks") else f"{name} {last:.4g}"


def _rows(config: Simulation, progress: "Progress"):
    yield from (_token_rows if config.measure == "particles" else _limit_rows)(config, progress)
    what = "coordinates" if config.measure == "particles" else "numbers"
    if "error" in progress.stats:
        yield "error estimate", f"{progress.stats['error']:.2g} in the final {what}"
    if "marginal_error" in progress.stats:
        yield "marginal error", f"{progress.stats['marginal_error']:.2g} of the Sinkhorn kernel"
    yield "steps", f"{progress.stats['steps']} and {progress.stats['rejected']} rejected"
    yield "seconds", f"{progress.seconds:.1f}"


def _token_rows(config: Simulation, progress: "Progress"):
    from measureflow.diagnostics import changes, clusters, order_parameter

    found = clusters(progress.seen(progress.final), config.tolerance)
    sizes = ", ".join(map(str, found.sizes[:12])) + (", ..." if len(found.sizes) > 12 else "")
    yield "clusters", f"{len(found.sizes)} (sizes {sizes})"
    if merges := changes(progress.times, progress.series["clusters"]):
        last = merges[-1]
        yield "last change", f"to {last.clusters} clusters between t = {last.after:.4g} and {last.before:.4g}"
    energy = progress.series["energy"]
    yield "energy", f"{energy[0]:.6g} to {energy[-1]:.6g}"
    order = [float(order_parameter(progress.seen(mu))) for mu in (progress.start, progress.final)]
    yield "order parameter", f"{order[0]:.4g} to {order[1]:.4g}"


LIMIT_WORDS = {
    "energy": "energy",
    "order": "order parameter",
    "peaks": "peaks",
    "negative_mass": "negative mass",
    "spread": "spread",
    "rank": "effective rank",
}


def _limit_rows(config: Simulation, progress: "Progress"):
    for name, words in LIMIT_WORDS.items():
        if name in progress.series:
            series = progress.series[name]
            yield words, f"{series[0] + 0.0:.6g} to {series[-1] + 0.0:.6g}"  # adding zero drops the sign of -0
    if progress.outcome is not None and not progress.outcome.ok:
        yield "last frame", f"t = {progress.times[-1]:.6g}"
    if "blow_up_time" in progress.stats:
        yield "blow-up time", f"{progress.stats['blow_up_time']:.8g}"


def _pictures(config: Simulation, progress: "Progress") -> dict[str, "Path"]:
    from measureflow.runs.reading import open as open_run

    if config.measure == "particles":
        return _token_pictures(config, progress)
    written = progress.path / "figure.png"
    _limit_figure(config, progress, open_run(progress.path).data).savefig(written)
    return {"picture": written}


def _limit_figure(config: Simulation, progress: "Progress", data):
    """The figure that suits the kind of the measure."""
    from measureflow.plotting import circle_figure, gaussian_figure, sphere_figure
    from measureflow.runs.kinds import finer

    times, series, title = progress.times, progress.series, _title(config, 0, progress.start.space.dim)
    match config.measure:
        case "circle":
            return circle_figure(times, data.density.values, series["energy"], title)
        case "sphere":
            density, heights = finer(data.density.values, config.modes or 0)
            return sphere_figure(times, density, heights, series, title)
        case kind:
            means, covs = (data["mean"], data["cov"]) if kind == "gaussian" else (data["means"], data["covs"])
            blow_up = progress.stats.get("blow_up_time")
            return gaussian_figure(
                times, means.values, covs.values, series["spread"], series["rank"], title, blow_up_time=blow_up
            )


def _token_pictures(config: Simulation, progress: "Progress") -> dict[str, "Path"]:
    import numpy as np

    from measureflow.diagnostics import clusters
    from measureflow.plotting import movie, run_figure
    from measureflow.runs.reading import open as open_run

    final = progress.seen(progress.final)
    space, weights = final.space, np.asarray(final.weights)
    points = open_run(progress.path).data.points.values
    if space != progress.final.space:
        points = points / np.linalg.norm(points, axis=-1, keepdims=True)
    labels = clusters(final, config.tolerance).labels
    title = _title(config, *points.shape[1:])
    energy, counts = progress.series["energy"], progress.series["clusters"]
    figure = run_figure(progress.times, points, space, energy, counts, labels, title, weights=weights)
    written = {"picture": progress.path / "figure.png"}
    figure.savefig(written["picture"])
    if config.movie:
        written["movie"] = progress.path / "movie.gif"
        movie(written["movie"], progress.times, points, space, labels, weights=weights)
    return written


def _title(config: Simulation, n: int, dim: int) -> str:
    raised = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
    where = f"S{dim - 1}" if config.space == "sphere" else f"R{dim}"
    what = {
        "particles": f"{n} tokens",
        "gaussian": "A Gaussian",
        "mixture": "A Gaussian mixture",
        "circle": "A density",
        "sphere": "A density",
    }
    parts = [
        f"{what[config.measure]} on {where.translate(raised)}",
        f"{'causal ' if config.mask == 'causal' else ''}{config.attention} attention",
        f"β = {config.beta:g}" if config.matrices is None else f"matrices of {config.matrices}",
        *([f"{config.heads} heads"] if config.heads > 1 else []),
        *([f"{config.norm} norm (directions)"] if config.norm != "none" else []),
        *([f"{config.weights} weights"] if config.weights != "identity" else []),
        *([f"{config.schedule} weights"] if config.schedule != "constant" else []),
        *([f"MLP of {config.mlp}"] if config.mlp else []),
        *([f"temperature {config.noise:g}"] if config.noise is not None else []),
        *(["moment closure"] if config.closure else []),
        *([f"{config.layers} layers"] if config.layers else []),
    ]
    return ", ".join(parts)
