"""How long a sweep will take, by a pilot: up to three of its programs are compiled and a chunk of each computed, and not kept."""

import time
from dataclasses import dataclass
from pathlib import Path

from measureflow.runs.cores import cores
from measureflow.sweeps import ledger
from measureflow.sweeps.cells import AbstractWork, Chunk
from measureflow.sweeps.design import Design


@dataclass(frozen=True)
class Estimate:
    """What is left of a sweep, and the seconds it takes."""

    total: int
    known: int
    impossible: int
    missing: int
    programs: int = 0
    tried: int = 0
    each: float = 0.0
    compiling: float = 0.0

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.compiling + self.missing * self.each


def estimate(design: Design, work: AbstractWork, path: Path) -> Estimate:
    """What is left of a design in a folder."""
    cells = list({one.key: one for one in work.asked(design)}.values())
    known = dict(ledger.read(path)) if ledger.is_sweep(path) else {}
    missing = [one for one in cells if one.key not in known and not one.problem]
    impossible = sum(bool(one.problem) and one.key not in known for one in cells)
    counts = len(cells), len(cells) - len(missing) - impossible, impossible, len(missing)
    if not missing:
        return Estimate(*counts)
    chunks = list(work.chunks(missing))
    programs = _programs(work, chunks)
    tried = [programs[i] for i in sorted({0, len(programs) // 2, len(programs) - 1})]
    found = [_timed(work, chunk) for chunk in tried]
    each = sum(seconds for _, seconds in found) / len(found)
    compiling = sum(first for first, _ in found) / len(found) * len(programs)
    return Estimate(*counts, len(programs), sum(len(chunk.cells) for chunk in tried), each, compiling)


def _programs(work: AbstractWork, chunks: list[Chunk]) -> list[Chunk]:
    """The first chunk of every program: batches by their shape, cells that go alone by their settings."""
    return list({work.program(chunk): chunk for chunk in reversed(chunks)}.values())[::-1]


def _timed(work: AbstractWork, chunk: Chunk) -> tuple[float, float]:
    """Seconds to compile, and seconds for a cell when that is done; batches are computed on all cores at once."""
    begun = time.perf_counter()
    work.rows(chunk)
    first = time.perf_counter() - begun
    begun = time.perf_counter()
    work.rows(chunk)
    again = time.perf_counter() - begun
    return max(first - again, 0.0), again / len(chunk.cells) / (cores() if chunk.names else 1)
