"""`measureflow train`: attention heads or neurons trained as measures, with certificates and error budgets.

`settings.py` has what can be asked, `data.py` where data come from, `job.py` what is computed, `report.py` the table and the
picture; `certificate.py` and `budget.py` are what `train certify` and `train budget` compute.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from measureflow.runs.command import AbstractCommand
from measureflow.words.settings import Settings
from measureflow.words.table import load

if TYPE_CHECKING:
    from measureflow.runs.job import Job
    from measureflow.runs.reader import Run
    from measureflow.wording import Note


class AbstractTraining(AbstractCommand):
    """A command that trains."""

    asks: ClassVar[str]
    """Where its settings are declared."""

    def schema(self, words: dict[str, Any]) -> type[Settings]:
        """The schema with the options that all words bring."""
        return load(self.asks).with_options()

    def job(self, settings: Any) -> "Job":
        """A training run."""
        return load("measureflow.commands.train.job:job_of")(settings)

    def rows(self, run: "Run") -> Iterator[tuple[str, str]]:
        """What the risk is worth, the gap, the spectra, and the mean-field limit if it was asked for."""
        yield from load("measureflow.commands.train.report:rows")(run)

    def notes(self, run: "Run") -> "tuple[Note, ...]":
        """What the words of the table mean."""
        return load("measureflow.commands.train.report:notes")(run)

    def figure(self, run: "Run", figure: Any = None) -> Any:
        """Risk, dissipation, the cloud of particles and the spectra that decide its stability."""
        return load("measureflow.commands.train.report:figure")(run, figure)


class TrainHeads(AbstractTraining):
    """`measureflow train heads`."""

    name = "train heads"
    asks: ClassVar[str] = "measureflow.commands.train.settings:HeadTraining"


class TrainNeurons(AbstractTraining):
    """`measureflow train neurons`."""

    name = "train neurons"
    asks: ClassVar[str] = "measureflow.commands.train.settings:NeuronTraining"
