"""The page of a training run shows what was measured."""

from types import SimpleNamespace

import numpy as np
from matplotlib.figure import Figure

from measureflow.plotting import Along, training_figure
from measureflow.plotting.training import draw_spectra

RNG = np.random.default_rng(0)
TIMES, RISK, LOST = np.linspace(0, 1, 5), np.linspace(3, 1, 5), np.geomspace(1, 1e-4, 5)


def line(figure, name):
    return next(found for ax in figure.axes for found in ax.lines if found.get_gid() == name)


def test_the_page_has_risk_limit_dissipation_heads_and_spectra():
    series = {"risk": Along(RISK, "risk"), "dissipation": Along(LOST, "dissipation")}
    run = SimpleNamespace(times=TIMES, series=series, title="a run", at=lambda i: None)
    spectra = {"splitting": [-1.0, 2.0], "translation": [0.5]}
    more = {"limit": RISK - 0.1, "limit_heads": 99, "baselines": {"unigram": 2.5}}
    figure = training_figure(run, invariants=RNG.normal(size=(2, 6, 4)), **spectra, **more)
    np.testing.assert_array_equal(line(figure, "risk").get_ydata(), RISK)
    np.testing.assert_array_equal(line(figure, "limit").get_ydata(), RISK - 0.1)
    np.testing.assert_array_equal(line(figure, "unigram").get_ydata(), [2.5, 2.5])
    assert [text.get_text() for text in figure.axes[0].texts] == ["unigram"]
    np.testing.assert_array_equal(line(figure, "dissipation").get_ydata(), LOST)
    end = next(c for ax in figure.axes for c in ax.collections if c.get_gid() == "end")
    places = np.asarray(end.get_offsets())
    # Two principal components of centred heads: uncorrelated, and the first one the wider.
    np.testing.assert_allclose(places.T @ places - np.diag(np.sum(places**2, 0)), 0.0, atol=1e-12)
    assert places[:, 0].std() >= places[:, 1].std()
    assert any("99 heads" in text.get_text() for text in figure.axes[0].get_legend().get_texts())


def test_negative_eigenvalues_stand_out():
    ax = Figure().subplots()
    assert draw_spectra(ax, [-1.0, 2.0], [0.5]) is ax
    rows = {found.get_gid(): found.get_colors() for found in ax.collections}
    assert not np.allclose(rows["H"][0], rows["H"][1])
    np.testing.assert_allclose(rows["H"][1], rows["H_tr"][0])


def test_zero_up_to_rounding_is_not_unstable():
    ax = Figure().subplots()
    draw_spectra(ax, [-3e-17, 1.0], [1.0])
    colours = next(found.get_colors() for found in ax.collections if found.get_gid() == "H")
    np.testing.assert_allclose(colours[0], colours[-1])
