"""`measureflow simulate`: tokens in motion, saved and pictured."""

from typing import TYPE_CHECKING

from measureflow.cli import prepare_jax
from measureflow.cli.options import parse
from measureflow.runs.config import Simulation

if TYPE_CHECKING:
    from measureflow.runs.simulate import Progress


def main(argv: list[str]) -> int:
    """Parse, run with a progress bar, print the table, draw the figure and name what was written."""
    config = parse(Simulation, argv, "measureflow simulate")
    prepare_jax()
    from rich.console import Console

    from measureflow.runs.simulate import simulate

    console = Console()
    with _Bar(console, config) as watch:
        progress = simulate(config, watch)
    console.print(_table(config, progress))
    console.print(str(progress.outcome))
    for name, path in _pictures(config, progress).items():
        console.print(f"{name:<8} {path}", highlight=False, soft_wrap=True)
    console.print(f"{'data':<8} {progress.path / 'data.zarr'}", highlight=False, soft_wrap=True)
    return 0


class _Bar:
    """A progress bar with the time reached and the clusters so far; it appears when there is something to report."""

    def __init__(self, console, config: Simulation):
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        text = TextColumn("t = {task.fields[time]:.4g} of {task.total:.4g}")
        self.bar = Progress(
            text, BarColumn(), TextColumn("{task.fields[clusters]}"), TimeElapsedColumn(), console=console
        )
        self.task = self.bar.add_task("", total=config.time, time=0.0, clusters="compiling")

    def __enter__(self):
        return self

    def __call__(self, progress: "Progress") -> None:
        self.bar.start()
        if progress.outcome is not None:
            reached, count = float(progress.outcome.time), progress.clusters[-1] if len(progress.clusters) else 0
            clusters = f"{count} cluster{'' if count == 1 else 's'}"
            self.bar.update(self.task, completed=reached, time=reached, clusters=clusters)

    def __exit__(self, *_) -> None:
        self.bar.stop()


def _table(config: Simulation, progress: "Progress"):
    from rich.table import Table

    from measureflow.diagnostics import changes, clusters, order_parameter

    table = Table(show_header=False, title=None)
    found = clusters(progress.seen(progress.final), config.tolerance)
    sizes = ", ".join(map(str, found.sizes[:12])) + (", ..." if len(found.sizes) > 12 else "")
    table.add_row("clusters", f"{len(found.sizes)} (sizes {sizes})")
    if merges := changes(progress.times, progress.clusters):
        last = merges[-1]
        table.add_row("last change", f"to {last.clusters} clusters between t = {last.after:.4g} and {last.before:.4g}")
    table.add_row("energy", f"{progress.energy[0]:.6g} to {progress.energy[-1]:.6g}")
    order = [float(order_parameter(progress.seen(mu))) for mu in (progress.start, progress.final)]
    table.add_row("order parameter", f"{order[0]:.4g} to {order[1]:.4g}")
    if "error" in progress.stats:
        table.add_row("error estimate", f"{progress.stats['error']:.2g} in the final coordinates")
    if "marginal_error" in progress.stats:
        table.add_row("marginal error", f"{progress.stats['marginal_error']:.2g} of the Sinkhorn kernel")
    table.add_row("steps", f"{progress.stats['steps']} and {progress.stats['rejected']} rejected")
    table.add_row("seconds", f"{progress.seconds:.1f}")
    return table


def _pictures(config: Simulation, progress: "Progress") -> dict[str, str]:
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
    figure = run_figure(
        progress.times, points, space, progress.energy, progress.clusters, labels, title, weights=weights
    )
    written = {"picture": progress.path / "figure.png"}
    figure.savefig(written["picture"])
    if config.movie:
        written["movie"] = progress.path / "movie.gif"
        movie(written["movie"], progress.times, points, space, labels, weights=weights)
    return {name: str(path) for name, path in written.items()}


def _title(config: Simulation, n: int, dim: int) -> str:
    raised = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
    where = f"S{dim - 1}" if config.space == "sphere" else f"R{dim}"
    parts = [
        f"{n} tokens on {where.translate(raised)}",
        f"{'causal ' if config.mask == 'causal' else ''}{config.attention} attention",
        f"β = {config.beta:g}" if config.matrices is None else f"matrices of {config.matrices}",
        *([f"{config.heads} heads"] if config.heads > 1 else []),
        *([f"{config.norm} norm (directions)"] if config.norm != "none" else []),
        *([f"{config.schedule} weights"] if config.schedule != "constant" else []),
        *([f"MLP of {config.mlp}"] if config.mlp else []),
        *([f"temperature {config.noise:g}"] if config.noise is not None else []),
        *([f"{config.layers} layers"] if config.layers else []),
    ]
    return ", ".join(parts)
