"""A study from outside the package runs like one of ours, from Python and from the command line."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from PIL import Image

from measureflow import studies
from measureflow.cli import main
from measureflow.studies import catalogue

HEAD = """
import jax.numpy as jnp
from measureflow.plotting import Curve, curves_figure
from measureflow.studies import Claim, equal

CLAIM = Claim("One is {number}.", reference="nobody:25", where="section 1")


def run(size):
    one = jnp.ones(1)
    {action}
    return CLAIM.judge(equal("ones of eight bytes", {number}, int(one.sum()) * one.itemsize // 8, 0), data=[1.0, 2.0])
"""
DRAW = """

def draw(data):
    return curves_figure([Curve("one", data, data)], "x", "y")
"""


RANDOM = """
from measureflow.studies import Claim, at_most

CLAIM = Claim("A seed is at most {most}.", reference="nobody:25", where="section 1")


def run(size, seed=0):
    if seed == {broken}:
        raise KeyError("gone")
    return CLAIM.judge(at_most("seed", {most}, float(seed)))
"""


@pytest.fixture(autouse=True)
def nothing_of_our_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(catalogue, "_added", {})


def write(name, number=1, action="pass", tail=""):
    Path(f"{name}.py").write_text(HEAD.format(number=number, action=action) + tail)
    return f"{name}.py"


def write_random(name, most, broken=-1):
    Path(f"{name}.py").write_text(RANDOM.format(most=most, broken=broken))
    return f"{name}.py"


def complaint(capsys, *words):
    assert main(["study", *words]) == 2
    return capsys.readouterr().err


def test_a_file_is_a_study_under_its_own_name():
    study = studies.load(write("one_is_one"))
    assert study.claim == studies.claim("one-is-one")
    assert (study.claim.name, study.claim.topic) == ("one-is-one", "own")
    assert studies.names("own") == ["one-is-one"]
    verdict = study.run()
    assert verdict.as_expected
    assert [text.get_text() for text in study.draw(verdict).axes[0].texts] == ["ones of eight bytes:  = 1,  measured 1"]


def test_studies_run_in_double_precision_whatever_the_configuration():
    with jax.enable_x64(False):
        assert studies.run(write("one_is_one")).as_expected
        assert jnp.ones(1).dtype == jnp.float32


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1", "no function `run`"),
        ("def run(size): pass", "needs `CLAIM = Claim"),
        ("CLAIM = Claim(x)\ndef run(size): pass", "needs `CLAIM = Claim"),
        ("CLAIM = Claim('One is one.')\ndef run(size): pass", "needs `CLAIM = Claim"),
        ("x =", "not Python: invalid syntax, line 1"),
    ],
)
def test_a_file_that_is_no_study_is_refused_in_a_sentence(text, sentence, capsys):
    Path("mine.py").write_text(text)
    assert sentence in complaint(capsys, "run", "mine.py")


def test_a_study_of_ones_own_does_not_hide_one_of_ours(capsys):
    assert "there is a study 'two-tokens-tanh' already" in complaint(capsys, "run", write("two_tokens_tanh"))
    assert "no Python file" in complaint(capsys, "run", "nowhere.py")


def test_the_command_line_runs_a_file_and_writes_what_was_asked(capsys):
    file = write("one_is_one", tail=DRAW)
    assert main(["study", "run", file, "--json", "out.json", "--figure", "one.png"]) == 0
    printed = capsys.readouterr().out
    assert "one-is-one: ones of eight bytes: predicted 1, measured 1; holds, as expected" in printed
    (verdict,) = json.loads(Path("out.json").read_text())
    wanted = "name statement reference predicted measured tolerance holds expected as_expected seconds topic where"
    assert set(wanted.split()) <= set(verdict)
    with Image.open("one.png") as picture:
        assert min(picture.size) > 500


def test_several_figures_go_to_a_folder():
    files = write("one_is_one", tail=DRAW), write("one_is_one_too", tail=DRAW), write("one_is_plain")
    assert main(["study", "run", *files, "--figure", "pictures"]) == 0
    assert sorted(file.name for file in Path("pictures").iterdir()) == [
        "one-is-one-too.png",
        "one-is-one.png",
        "one-is-plain.png",
    ]


def test_a_claim_that_fails_gives_exit_code_1(capsys):
    assert main(["study", "run", write("one_is_two", number=2)]) == 1
    assert "NOT AS EXPECTED" in capsys.readouterr().out


def test_a_study_that_fails_is_not_decided_and_the_next_one_runs(capsys):
    files = write("broken", action="raise KeyError('gone')"), write("one_is_one")
    assert main(["study", "run", *files, "--json", "out.json"]) == 1
    printed = capsys.readouterr().out
    assert "broken: KeyError: 'gone' (broken.py, line 11); not decided, NOT AS EXPECTED" in printed
    assert "1 of 2 claims as expected" in printed
    broken, whole = json.loads(Path("out.json").read_text())
    assert (broken["holds"], broken["as_expected"], broken["predicted"]) == (False, False, {})
    assert whole["as_expected"]


def test_a_run_without_a_verdict_is_not_decided(capsys):
    assert main(["study", "run", write("silent", action="return None")]) == 1
    assert "must return `CLAIM.judge(...)`" in capsys.readouterr().out


def test_from_python_a_study_that_fails_is_not_decided_unless_loaded():
    file = write("broken", action="raise KeyError('gone')")
    verdict = studies.run(file, studies.FULL)
    assert (verdict.word, verdict.as_expected) == ("not decided", False)
    assert verdict.reason == "KeyError: 'gone' (broken.py, line 11)"
    assert (verdict.size, verdict.seed) == (studies.FULL, None)
    with pytest.raises(KeyError):
        studies.load(file).run()


def test_a_study_that_takes_a_seed_is_random():
    for file, random in ((write_random("small_seeds", 3), True), (write("one_is_one"), False)):
        assert studies.load(file).random == studies.random(studies.add(file)) == random
    assert studies.run("small-seeds", seed=3).as_json()["seed"] == 3
    assert studies.run("small-seeds", seed=3).as_expected
    assert not studies.run("small-seeds", seed=4).as_expected
    assert studies.run("one-is-one", seed=3).as_json()["seed"] is None


def test_several_seeds_are_told_in_one_line_by_their_share(capsys):
    files = write_random("small_seeds", 3), write_random("smaller_seeds", 1), write("one_is_one")
    assert main(["study", "run", *files, "--seeds", "4", "--json", "out.json"]) == 1
    right, wrong, still, total = capsys.readouterr().out.splitlines()
    assert right.startswith("small-seeds: as expected for 4 of 4 seeds; tightest for seed 3, seed: predicted at most 3")
    assert wrong.startswith("smaller-seeds: as expected for 2 of 4 seeds, NOT for seeds 2, 3; tightest for seed 3")
    assert still.endswith("it draws nothing at random")
    assert total == "2 of 3 claims as expected."
    seeds = [verdict["seed"] for verdict in json.loads(Path("out.json").read_text())]
    assert seeds == [0, 1, 2, 3, 0, 1, 2, 3, None]


def test_a_seed_that_ends_in_an_error_is_not_as_expected(capsys):
    assert main(["study", "run", write_random("small_seeds", 3, broken=1), "--seeds", "2"]) == 1
    assert "as expected for 1 of 2 seeds, NOT for seed 1; tightest for seed 1, KeyError" in capsys.readouterr().out


def test_one_seed_can_be_chosen(capsys):
    assert main(["study", "run", write_random("small_seeds", 3), "--seed", "4"]) == 1
    assert "seed: predicted at most 3, measured 4; differs" in capsys.readouterr().out
    assert main(["study", "run", write("one_is_one"), "--seed", "4"]) == 0
    assert "it draws nothing at random" in capsys.readouterr().out
    assert "give one of the two" in complaint(capsys, "run", "small_seeds.py", "--seed", "4", "--seeds", "2")
    assert "seeds" in complaint(capsys, "run", "small_seeds.py", "--seeds", "0")


def test_a_picture_that_fails_leaves_the_verdict_and_gives_exit_code_1(capsys):
    file = write("one_is_one", tail="\n\ndef draw(data):\n    raise ValueError('no ink')\n")
    assert main(["study", "run", file, "--figure", "one.pdf"]) == 1
    said = capsys.readouterr()
    assert "holds, as expected" in said.out
    assert "could not be drawn: ValueError: no ink" in said.err


def test_studies_are_listed_by_theme(capsys):
    assert main(["study", "list"]) == 0
    everything = capsys.readouterr().out
    assert all(f"\n  {name}\n" in everything for name in studies.names())
    assert main(["study", "list", "--topic", "sphere"]) == 0
    sphere = capsys.readouterr().out
    *listed, count = sphere.splitlines()
    assert "\n".join(listed) in everything
    assert count == f"{len(studies.names('sphere'))} of {len(studies.names())} studies."
    assert "two-tokens-tanh" in sphere
    assert "riccati-closed-form" not in sphere


@pytest.mark.parametrize("words", [[], ["all"]])
def test_a_theme_stands_for_its_claims(words, monkeypatch):
    monkeypatch.setattr(studies, "run", lambda name, size, seed: studies.Verdict(studies.claim(name)))
    assert main(["study", "run", *words, "--topic", "noise", "--json", "out.json"]) == 1
    assert [verdict["name"] for verdict in json.loads(Path("out.json").read_text())] == studies.names("noise")


def test_unknown_studies_are_all_named(capsys):
    said = complaint(capsys, "run", "two-token-tanh", "nonsense")
    assert "did you mean 'two-tokens-tanh'?" in said
    assert "'nonsense'" in said
    assert "`all`" in complaint(capsys, "run")
    assert "did you mean 'sphere'?" in complaint(capsys, "run", "--topic", "spheres")
    assert "did you mean 'sphere'?" in complaint(capsys, "list", "--topic", "spheres")
    assert "`topic` stands for all" in complaint(capsys, "run", "two-tokens-tanh", "--topic", "sphere")


def test_destinations_that_cannot_be_written_are_refused_before_the_work(capsys, monkeypatch):
    monkeypatch.setattr(studies, "run", None)
    file, plain = write("one_is_one", tail=DRAW), write("one_is_plain")
    Path("folder").mkdir()
    assert "`json`: there is no folder 'nowhere'" in complaint(capsys, "run", file, "--json", "nowhere/out.json")
    assert "`json`: 'folder' is a folder" in complaint(capsys, "run", file, "--json", "folder")
    assert "`figure`: there is no folder 'nowhere'" in complaint(capsys, "run", file, "--figure", "nowhere/one.png")
    assert "`figure` must end in .png, .pdf, .svg" in complaint(capsys, "run", file, "--figure", "one.gif")
    assert "`figure` must be a folder for 2 claims" in complaint(capsys, "run", file, plain, "--figure", "one.png")


@pytest.mark.parametrize("words", [[], ["run"], ["list"]])
def test_help_needs_no_other_words(words, capsys):
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(main(["study", *words, "--help"]))
    assert not ended.value.code
    assert "usage: measureflow study" in capsys.readouterr().out
