"""`measureflow simulate`: tokens under attention, or the limit of infinitely many of them, in motion."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from measureflow.runs.command import AbstractCommand
from measureflow.wording import Stat
from measureflow.words.settings import Settings
from measureflow.words.table import load

if TYPE_CHECKING:
    from measureflow.flows import AbstractFlow
    from measureflow.runs.job import Job
    from measureflow.words.measures.base import Look
    from measureflow.words.series import Series


MARGINAL_ERROR = Stat("marginal_error", "marginal error", "{marginal_error:.2g} of the Sinkhorn kernel")


class Simulate(AbstractCommand):
    """`measureflow simulate`."""

    name = "simulate"

    def schema(self, words: dict[str, Any]) -> type[Settings]:
        """The schema with the options that all words bring."""
        return load("measureflow.commands.simulate.settings:Simulation").with_options()

    def job(self, settings: Any) -> "Job":
        """A simulation."""
        return load("measureflow.commands.simulate.job:job_of")(settings)

    def parts(self, settings: Any) -> "tuple[AbstractFlow, tuple[Series, ...], Look]":
        """Those of a simulation."""
        flow, look = load("measureflow.commands.simulate.job:parts_of")(settings)
        return flow, load("measureflow.commands.simulate.job:series_of")(settings, look, flow.start), look

    def watched(self, job: "Job", extent: float) -> "tuple[Series, ...]":
        """Clusters are seen at the scale of the cloud."""
        look = replace(job.look, extent=extent)
        return load("measureflow.commands.simulate.job:series_of")(job.settings, look, job.flow.start)

    def stats(self) -> "tuple[Stat, ...]":
        """Those of flows, and the marginal error of Sinkhorn attention."""
        return (*super().stats(), MARGINAL_ERROR)
