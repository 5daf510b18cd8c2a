"""`measureflow study`: published claims and their verdicts."""

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from measureflow.cli import complain, prepare_jax
from measureflow.cli.options import parse
from measureflow.cli.showing import Counter, say
from measureflow.words.outputs import PICTURES, Output, Words, check_writable, positional
from measureflow.words.settings import InputError
from measureflow.words.table import nearest

if TYPE_CHECKING:
    from measureflow.studies import Claim, Size, Verdict

EXPECTED = {
    "holds": "holds: every part below must hold",
    "differs": "differs: the claim must fail as printed, and what is true instead must hold",
}

USAGE = """usage: measureflow study {list,show,run} [options]

  list  list the claims that have a study, theme by theme
  show  tell all about studies: paper, formula, setting, and what would make them fail
  run   run studies and print their verdicts

`measureflow study list --help`, and so on, list the options."""


class ListStudies(Words):
    """List the claims that have a study, theme by theme; several options leave those that meet all."""

    topic: str | None = Field(None, description="only the claims of this theme")
    paper: str | None = Field(
        None, description="only the claims of this paper, by its key in the bibliography, such as castin:25"
    )
    draws: bool = Field(False, description="only studies with a picture of their own")
    differs: bool = Field(False, description="only claims that are wrong as published")
    search: str | None = Field(
        None, description="only studies with this text in name, statement, place, paper or introduction"
    )


class ShowStudies(Words):
    """Tell what studies claim, where it is published, how it is computed, and what would make them fail."""

    names: tuple[str, ...] = positional("NAME", "claims to show; a file that ends in .py is a study of your own")


class RunStudies(Words):
    """Run studies and print one line for each; the exit code is 1 if a claim is not as expected."""

    names: tuple[str, ...] = positional(
        "NAME", "claims to run, or `all`; a file that ends in .py is a study of your own", least=0
    )
    topic: str | None = Field(None, description="run all claims of this theme")
    size: Literal["small", "full"] = Field(
        "small", description="seconds in small, the setting of the catalogue in full"
    )
    seed: int | None = Field(None, ge=0, description="seed of the studies that draw at random; 0 unless told")
    seeds: int | None = Field(
        None, ge=1, description="run each study that draws at random with seeds 0 to this, less one"
    )
    json_file: Output | None = Field(None, alias="json", description="also write the verdicts to this file, as a list")
    figure: str | None = Field(
        None, description="also draw what was found: a file in png, pdf or svg for one claim, a folder for several"
    )


def main(argv: list[str]) -> int:
    """Choose between listing and running."""
    what, *rest = argv or ["--help"]
    match what:
        case "-h" | "--help":
            say(USAGE)
            return 0
        case "list":
            return list_studies(parse(ListStudies, rest, "measureflow study list"))
        case "show":
            return show_studies(parse(ShowStudies, rest, "measureflow study show"))
        case "run":
            return run_studies(parse(RunStudies, rest, "measureflow study run"))
        case _:
            raise InputError(
                f"{what!r} is nothing to do with studies{nearest(what, ['list', 'show', 'run'])}.", "", USAGE
            )


def list_studies(words: ListStudies) -> int:
    """Print the claims that were asked for with their sources, theme by theme."""
    from measureflow import studies

    found = 0
    for theme in _themes(words.topic):
        chosen = [studies.claim(name) for name in studies.names(theme)]
        chosen = [claim for claim in chosen if _meets(claim, words)]
        found += len(chosen)
        if chosen:
            say(f"{theme}: {studies.about(theme)}\n")
        for claim in chosen:
            source = f"{claim.reference}, {claim.where}; expected: {claim.expected}"
            say(f"  {claim.name}\n      {claim.statement} [{source}]")
        if chosen:
            say("")
    say(f"{found} of {len(studies.names())} studies.")
    return 0


def _meets(claim: "Claim", words: ListStudies) -> bool:
    from measureflow import studies

    papers = claim.reference.split(", ")
    if words.paper is not None and _paper(words.paper) not in papers:
        return False
    if (words.draws and not studies.draws(claim.name)) or (words.differs and claim.expected != "differs"):
        return False
    if words.search is None:
        return True
    told = (claim.name, claim.statement, claim.where, studies.description(claim.name).idea)
    cited = [str(studies.references()[key]) for key in papers if key in studies.references()]
    return words.search.casefold() in " ".join((*told, *papers, *cited)).casefold()


def _paper(key: str) -> str:
    from measureflow.studies import references

    if key not in references():
        raise InputError(f"`paper` is {key!r}, which is no key{nearest(key, list(references()))} of the bibliography.")
    return key


def show_studies(words: ShowStudies) -> int:
    """Print all that is known of studies without running them."""
    for name in _chosen(words.names, None):
        say(_told(name) + "\n")
    return 0


def _told(name: str) -> str:
    """A study in words: one row for each thing to know, and one line for each way to fail."""
    from measureflow import studies

    claim, text = studies.claim(name), studies.description(name)
    known = studies.references()
    papers = [str(known[key]) if key in known else key for key in claim.reference.split(", ")]
    rows = {
        "statement": [claim.statement],
        "paper": papers,
        "place": [f"{claim.where} [{claim.reference}]"],
        "formula": text.idea.split("\n\n"),
        "setting": [text.setting],
        "expected": [EXPECTED[claim.expected]],
        "fails if": [str(part) for part in text.parts if claim.expected == "holds" or part.instead],
        "as printed": [str(part) for part in text.parts if claim.expected == "differs" and not part.instead],
        "draws": ["a picture of its own" if studies.draws(name) else "its parts against their predictions"],
        "seeds": ["draws at random: --seed, --seeds" if studies.random(name) else "draws nothing at random"],
        "file": [str(text.file)],
    }
    told = [f"{label if k == 0 else '':<12}{line}" for label, lines in rows.items() for k, line in enumerate(lines)]
    return "\n".join([f"{name} ({claim.topic})", *(_wrapped(line) for line in told)])


def _wrapped(line: str) -> str:
    """A line of the page, broken between words alone, so that names and paths stay whole."""
    return textwrap.fill(
        line, 110, initial_indent="  ", subsequent_indent=" " * 16, break_on_hyphens=False, break_long_words=False
    )


def run_studies(words: RunStudies) -> int:
    """Run, print, draw and write, one study after the other."""
    seeds = _seeds(words)
    chosen = _chosen(words.names, words.topic)
    pictures = {} if words.figure is None else _pictures(chosen, words.figure)
    prepare_jax()
    import jax

    from measureflow.studies import Size, random

    fields, right, missing = [], 0, []
    runs = {name: seeds if random(name) else seeds[:1] for name in chosen}
    with Counter(sum(map(len, runs.values()))) as counter:
        for name in chosen:
            verdicts = [_counted(counter, name, Size(words.size), seed) for seed in runs[name]]
            right += all(verdict.as_expected for verdict in verdicts)
            say(_line(verdicts, told=(words.seed, words.seeds) != (None, None)))
            if name in pictures and not _drawn(verdicts[0], pictures[name]):
                missing.append(name)
            jax.clear_caches()  # compiled functions of a hundred studies are more memory maps than a process may have
            fields += [verdict.as_json() for verdict in verdicts]
            if words.json_file is not None:
                Path(words.json_file).write_text(json.dumps(fields, indent=2) + "\n")
    say(f"{right} of {len(chosen)} claims as expected.")
    return 1 if missing or right < len(chosen) else 0


def _counted(counter: Counter, name: str, size: "Size", seed: int) -> "Verdict":
    from measureflow.studies import run

    counter.begin(name)
    verdict = run(name, size, seed)
    counter.end()
    return verdict


def _seeds(words: RunStudies) -> list[int]:
    if words.seed is not None and words.seeds is not None:
        raise InputError("`seed` is one seed and `seeds` is how many there are; give one of the two.")
    return [words.seed or 0] if words.seeds is None else list(range(words.seeds))


def _line(verdicts: "list[Verdict]", told: bool) -> str:
    """What was found in a line: of several seeds the share as expected, which were not, and the tightest of all parts."""
    if len(verdicts) == 1:
        (verdict,) = verdicts
        return f"{verdict}; it draws nothing at random" if told and verdict.seed is None else str(verdict)
    wrong = [str(verdict.seed) for verdict in verdicts if not verdict.as_expected]
    share = f"as expected for {len(verdicts) - len(wrong)} of {len(verdicts)} seeds"
    but = f", NOT for {'seed' if len(wrong) == 1 else 'seeds'} {', '.join(wrong)}" if wrong else ""
    tightest = min(verdicts, key=lambda verdict: verdict.margin)
    seconds = sum(verdict.seconds for verdict in verdicts)
    return f"{tightest.name}: {share}{but}; tightest for seed {tightest.seed}, {tightest.decisive} ({seconds:.1f} s)"


def _drawn(verdict: "Verdict", file: Path) -> bool:
    """Draw what a study found, if it found something, and say where or why not."""
    from measureflow import studies

    if verdict.checks:
        try:
            studies.load(verdict.name).picture(verdict).savefig(file)
            say(f"    drawn in {file}")
            return True
        except Exception as error:
            complain(f"The study {verdict.name!r} could not be drawn: {studies.said(error)}.")
    return False


def _themes(topic: str | None) -> list[str]:
    from measureflow import studies

    known = studies.topics()
    if topic is not None and topic not in known:
        raise InputError(
            f"`topic` is {topic!r}, which is no theme{nearest(topic, known)}. There are: {', '.join(known)}."
        )
    return known if topic is None else [topic]


def _chosen(names: tuple[str, ...], topic: str | None) -> list[str]:
    """The studies to run; files are added to those there are."""
    from measureflow import studies

    if topic is not None and names not in ((), ("all",)):
        raise InputError("`topic` stands for all claims of a theme; leave it out, or name no claims beside it.")
    if topic is not None or names == ("all",):
        return [name for theme in _themes(topic) for name in studies.names(theme)]
    if not names:
        raise InputError("Name the claims to run, or `all`, or a `--topic`; `measureflow study list` lists them.")
    known = studies.names()
    unknown = [name for name in names if not name.endswith(".py") and name not in known]
    if unknown:
        raise InputError(*(f"There is no study {name!r}{nearest(name, known)}." for name in unknown))
    return list(dict.fromkeys(_added(name) if name.endswith(".py") else name for name in names))


def _added(file: str) -> str:
    from measureflow import studies

    try:
        return studies.add(file)
    except ValueError as error:
        raise InputError(str(error)) from None


def _pictures(names: list[str], figure: str) -> dict[str, Path]:
    """The file for the picture of each study, all of which can be written."""
    target = Path(figure)
    if len(names) == 1 and not target.is_dir():
        if target.suffix not in PICTURES:
            raise InputError(f"`figure` must end in {', '.join(PICTURES)} or be a folder; got {figure!r}.")
        _check_picture(target)
        return {names[0]: target}
    if target.suffix in PICTURES or target.is_file():
        raise InputError(f"`figure` must be a folder for {len(names)} claims; got the file {figure!r}.")
    _check_picture(target / "picture.png" if target.is_dir() else target)
    target.mkdir(exist_ok=True)
    return {name: target / f"{name}.png" for name in names}


def _check_picture(file: Path) -> None:
    try:
        check_writable(str(file))
    except ValueError as error:
        raise InputError(f"`figure`: {error}.") from None
