"""The numbers that a flow tells beside its frames, each with its row in tables."""

from collections.abc import Mapping
from typing import Any

from measureflow.wording import Stat


def _error(stats: Mapping[str, Any]) -> str:
    """The error estimate, beside the size of the numbers where that is known, and what it is an error of."""
    relative = f", {stats['relative_error']:.2g} of their size" if "relative_error" in stats else ""
    of = ": steps, resolution and sums"
    if stats.get("pathwise"):
        of = (
            f", pathwise: of this one Brownian path, at steps of {stats['step']:.3g} against twice that; not of the law"
        )
    return f"{stats['error']:.2g} in the final numbers{relative}{of}"


def _change(stats: Mapping[str, Any]) -> str:
    form = f"{stats['parcels']} parcels" if "parcels" in stats else f"{stats['degree']} moments"
    return f"at t = {stats['changed_at']:.4g} to {form}; moments were then off by {stats['change_error']:.2g}"


STATS = (
    Stat("blow_up_time", "blow-up time", "{blow_up_time:.8g}"),
    Stat("error", "error estimate", _error),
    Stat("tokens", "tokens left", "{tokens}, moved by at most {merge_error:.2g} when they merged"),
    Stat("changes", "changed form", _change, summed=True),
    Stat("change_error", summed=True),
    Stat("steps", "steps", "{steps} and {rejected} rejected", summed=True),
    Stat("rejected", summed=True),
)
