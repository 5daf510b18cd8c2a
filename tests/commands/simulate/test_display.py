"""How runs are looked at: an energy that means something, and a frame in which tokens stay in sight."""

import numpy as np
import pytest

import measureflow as mf
from measureflow.commands.simulate.display import growing
from measureflow.runs.command import command
from measureflow.runs.report import figure, table
from measureflow.words.measures.tokens import as_seen, frame_note

SIMULATE = command("simulate")
FLAT = {"space": "euclidean", "n": 24, "dim": 2, "beta": 1.0, "time": 6.0, "frames": 7, "frames_per_leg": 7}


def job(**words):
    return SIMULATE.job(SIMULATE.settings({"n": 6, "dim": 3, "time": 1.0} | words))


def names(**words):
    return [one.name for one in job(**words).series]


@pytest.fixture(scope="module")
def flat(tmp_path_factory):
    """A run in the plane, where tokens grow like e^t."""
    return mf.runs.run("simulate", **FLAT, out=str(tmp_path_factory.mktemp("looking") / "flat"))


@pytest.mark.parametrize("beta", [0.0, 2.0, 9.0])
def test_the_energy_of_consensus_is_one(beta):
    look = job(beta=beta).look
    consensus = mf.Particles(mf.Sphere(3), np.tile([0.6, 0.0, 0.8], (6, 1)))
    assert look.label == "energy E / max E"
    assert float(look.energy(consensus)) == pytest.approx(1.0, rel=1e-14)


def test_an_energy_without_a_positive_or_finite_maximum_stays_as_it_is():
    for beta in (-1.0, 1000.0):
        assert job(beta=beta).look.label == "interaction energy E"


@pytest.mark.parametrize(
    "words",
    [
        {"mask": "causal"},
        {"noise": 0.1, "solver": "euler", "dt": 0.1},
        {"attention": "l2"},
        {"mlp": 4},
        {"schedule": "oscillating"},
    ],
)
def test_an_energy_that_need_not_rise_says_so(words):
    assert job(**words).look.label.endswith("(not a gradient flow of it)")


def test_given_matrices_raise_their_energy_only_if_values_go_along_scores(tmp_path):
    A, turn = np.diag([3.0, 2.0, 1.0]), np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    for name, matrices, rises in (
        ("along", (A, 2 * A), True),
        ("other", (A, turn), False),
        ("turned", (turn, turn), False),
    ):
        np.savez(tmp_path / f"{name}.npz", A=matrices[0], V=matrices[1])
        look = job(matrices=str(tmp_path / f"{name}.npz")).look
        assert look.label.endswith("of it)") != rises
    top = mf.Particles(mf.Sphere(3), np.tile([1.0, 0.0, 0.0], (6, 1)))
    along = job(matrices=str(tmp_path / "along.npz")).look
    assert float(along.energy(top)) == pytest.approx(1.0, rel=1e-14)


def test_several_heads_and_flat_space_have_no_energy_unless_it_is_descended():
    assert "energy" not in names(weights="gaussian", heads=2)
    assert "energy" not in names(space="euclidean")
    assert "energy" in names(space="euclidean", energy="interaction")
    assert "energy" in names(space="euclidean", norm="pre")  # by directions, which are on the sphere


def test_the_growing_part_of_a_matrix():
    assert growing(2 * np.eye(3)) == 2.0
    assert growing(-np.eye(3)) is None
    np.testing.assert_allclose(growing(np.diag([2.0, -1.0])), np.diag([2.0, 0.0]), atol=1e-15)
    V = np.array([[1.0, -2.0], [2.0, 1.0]])  # eigenvalues 1 + 2i and 1 - 2i: all of it grows
    np.testing.assert_allclose(growing(V), V, atol=1e-14)
    assert growing(np.array([[1.0, 1.0], [0.0, 1.0]])) is None  # no eigenvectors to tell


def test_a_frame_is_rescaled_where_tokens_grow_and_nobody_chose():
    assert job(space="euclidean").look.growth == 1.0
    assert job(space="euclidean", mask="causal").look.growth == 1.0
    for words in ({"frame": "fixed"}, {"attention": "unnormalised"}, {"mlp": 3}, {"norm": "pre"}, {"layers": 3}):
        assert job(space="euclidean", **words).look.growth is None
    assert job().look.growth is None


def test_growing_tokens_are_seen_in_a_frame_where_they_stay(flat):
    clouds = as_seen(flat)
    start, end = flat.at(0).points, flat.at(-1).points
    assert np.abs(end).max() > 50 * np.abs(start).max()  # e^6 is 403
    np.testing.assert_allclose(clouds.at(-1).points, np.exp(-6.0) * end, rtol=1e-14)
    assert np.abs(clouds.at(-1).points).max() <= np.abs(start).max()
    drawn = figure(flat)
    assert drawn.axes[0].get_xlabel() == "z₁"
    assert "exp(−tV)" in drawn.get_supxlabel()


def test_the_table_counts_clusters_at_the_scale_of_the_cloud(flat):
    rows = dict(table(flat).rows)
    sizes = mf.diagnostics.clusters(flat.final).sizes
    assert 1 <= len(sizes) <= 4
    assert len(mf.diagnostics.clusters(flat.final, 0.1).sizes) > 12  # what an absolute tolerance would say
    assert rows["clusters at the end"].startswith(f"{len(sizes)} (sizes {', '.join(map(str, sizes))})")
    assert rows["number of clusters"] == f"0 to {len(sizes)}"
    text = rows["error estimate"]
    assert f"{flat.stats['error'] / flat.series['size'].values[-1]:.2g} of their size" in text
    assert not any("inf" in text or "nan" in text for text in rows.values())


def test_only_growing_directions_are_rescaled_and_the_picture_says_so(tmp_path):
    np.savez(tmp_path / "V.npz", A=np.eye(2), V=np.diag([1.0, -0.5]))
    words = {name: value for name, value in FLAT.items() if name != "beta"} | {"matrices": str(tmp_path / "V.npz")}
    clouds = as_seen(mf.runs.run("simulate", **words, verify=False, out=str(tmp_path / "run")))
    np.testing.assert_allclose(
        clouds.at(-1).points, np.asarray(clouds.source.final.points) * [np.exp(-6.0), 1.0], rtol=1e-14
    )
    assert frame_note(clouds.look).endswith("V on growing directions.")


def test_a_flow_in_the_rescaled_frame_has_the_same_picture(flat, tmp_path):
    same = mf.runs.run("simulate", **FLAT, frame="rescaled", verify=False, out=str(tmp_path / "rescaled"))
    # Two ways to the same numbers, each with steps of relative tolerance 1e-8.
    np.testing.assert_allclose(same.final.points, as_seen(flat).at(-1).points, atol=1e-6)
    assert figure(same).axes[0].get_xlabel() == "z₁"
    np.testing.assert_array_equal(same.series["clusters"].values, flat.series["clusters"].values)
