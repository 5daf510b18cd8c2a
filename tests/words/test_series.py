"""Series: watched on frames, stored with their declaration, told in words."""

import jax.numpy as jnp
import numpy as np

from measureflow.words.series import Series, Watched, observed, observed_series, unnamed, watch

FRAMES = {"x": jnp.arange(6.0).reshape(3, 2)}
TIMES = np.array([0.0, 0.5, 1.0])


def test_traced_and_host_series_are_watched_in_their_order():
    series = (
        Series("late", lambda mu, t: t * len(mu["x"]), host=True, timed=True),
        Series("sum", lambda mu: mu["x"].sum()),
        Series("large", lambda mu: int(mu["x"][0] > 1), host=True, counts=True),
    )
    found = watch(series, TIMES, FRAMES)
    assert list(found) == ["late", "sum", "large"]
    assert [values.tolist() for values in found.values()] == [[0.0, 1.0, 2.0], [1.0, 5.0, 9.0], [0, 1, 1]]


def test_what_is_stored_of_a_declaration_is_enough_to_tell_the_values():
    plain = Series("mean_size", abs).attributes()
    assert plain["label"] == "mean size"
    assert "rounding" not in plain
    declared = Series("gap", abs, "gap of the clusters", ".2g", rounding=1e-12).attributes()
    told = Watched("gap", np.array([0.123, 1e-13, np.nan]), **declared)
    assert told.label == "gap of the clusters"
    assert [told.text(0), told.text(1)] == ["0.12", "0"]
    assert told.last == "nan"
    counted = Watched("clusters", np.array([3.0, np.inf]), "clusters", counts=True)
    assert (counted.text(0), counted.last) == ("3", "inf")


def test_what_is_observed_has_the_name_of_its_place_and_numbers_are_series():
    tree = {"mean": np.zeros((3, 2)), "size": [np.arange(3), np.ones(3)]}
    found = observed(tree)
    assert list(found) == ["observed.mean", "observed.size.0", "observed.size.1"]
    assert list(unnamed(found)) == ["mean", "size.0", "size.1"]
    assert unnamed(observed(np.ones(3))).tolist() == [1.0, 1.0, 1.0]
    assert unnamed({}) is None
    series = observed_series(found)
    assert {one.label: one.counts for one in series.values()} == {"size.0": True, "size.1": False}
