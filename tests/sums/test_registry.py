"""An engine is its class: whatever is asked about it, it declares, and engines from outside join by one line."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest

import measureflow as mf
from measureflow.commands.bench import job as bench
from measureflow.sums import (
    AbstractEngine,
    Attended,
    Auto,
    Cost,
    Dense,
    KernelSum,
    Native,
    choice,
    choose,
    costs,
    native,
    past,
)
from measureflow.sums.base import attend_one


class Plain(AbstractEngine):
    """As little as an engine needs, and a cost that beats all others."""

    exact = True
    batches = False
    costs = {"cpu float64": Cost(0.0)}  # noqa: RUF012

    @classmethod
    def serving(cls, sum):
        return cls() if sum.d == 7 else None

    def attend(self, covectors, sources, log_weights):
        return Attended(*jax.vmap(attend_one, in_axes=(0, None, None))(covectors, sources, log_weights))


@pytest.fixture
def outside():
    yield mf.sums.register(Plain)
    assert mf.sums.forget("plain") is Plain


def test_an_engine_from_outside_joins_by_one_line_and_leaves_again(outside):
    assert mf.sums.engine("plain") == Plain()
    assert isinstance(choose(KernelSum(1000, 1000, 7, "float64")), Plain)
    assert not isinstance(choose(KernelSum(1000, 1000, 6, "float64")), Plain)
    assert not isinstance(choose(KernelSum(1000, 1000, 7, "float32")), Plain)  # no cost is known
    mu = mf.Particles.iid(mf.Euclidean(7), 200, key=0)
    assert mu.engine_name == "plain"
    np.testing.assert_allclose(mu.attend(mu.points).mean, mu.using(Dense()).attend(mu.points).mean, rtol=1e-12)
    mf.sums.forget("plain")
    assert "plain" not in mf.sums.names()
    assert not isinstance(choose(KernelSum(1000, 1000, 7, "float64")), Plain)
    mf.sums.register(Plain)


def test_a_second_engine_of_one_name_is_refused(outside):
    assert mf.sums.register(Plain) is Plain
    with pytest.raises(ValueError, match="There is an engine 'plain' already"):
        mf.sums.register(type(AbstractEngine)("Plain", (AbstractEngine,), {"exact": True, "batches": False}))


@pytest.mark.parametrize("forgotten", ["exact", "batches"])
def test_a_class_that_forgets_to_declare_is_refused_where_it_is_written(forgotten):
    said = {"exact": True, "batches": False}
    assert type(AbstractEngine)("Whole", (AbstractEngine,), said).name == "whole"
    del said[forgotten]
    with pytest.raises(TypeError, match=f"The class `Half` must declare `{forgotten}: ClassVar"):
        type(AbstractEngine)("Half", (AbstractEngine,), said)


def test_words_give_engines_and_unknown_ones_a_sentence():
    assert mf.sums.engine("auto") == Auto()
    assert mf.sums.engine("blockwise", pairs=5).pairs == 5
    assert len(set(mf.sums.names())) == len(mf.sums.engines())
    for word, sentence in {
        "nativ": "`engine` 'nativ' is not known; did you mean 'native'?",
        "zzz": "`engine` 'zzz' is not known; there are blockwise, dense,",
        "nufft": "The engine 'nufft' cannot be made with these options: missing a required argument: 'reach'.",
    }.items():
        with pytest.raises(ValueError, match=re.escape(sentence)):
            mf.sums.engine(word)


def test_every_engine_class_of_the_package_is_registered_and_picks_itself():
    def below(kind):
        return {kind, *(leaf for child in kind.__subclasses__() for leaf in below(child))}

    ours = {kind for kind in below(AbstractEngine) if kind.__module__.startswith("measureflow.")}
    assert {kind for kind in ours if not kind.__abstractmethods__ and "Abstract" not in kind.__name__} == {
        kind for kind in mf.sums.engines() if kind.__module__.startswith("measureflow.")
    }
    for kind in (Dense, mf.sums.Blockwise, mf.sums.Fourier, mf.sums.Harmonics):
        assert kind().pick(KernelSum(9, 9, 2, "float64")) == kind()


def test_the_choice_knows_no_engine_by_name():
    for module in (choice, costs, past, bench):
        text = Path(module.__file__).read_text()
        assert not [name for name in mf.sums.names() if re.search(rf"[\"']{name}[\"']", text)], module.__name__
        assert "isinstance(" not in text, module.__name__


@pytest.mark.skipif(not native.available(), reason="the native kernel is not built")
def test_sums_with_an_error_of_their_own_say_so():
    circle = mf.Particles.iid(mf.Sphere(2), 5000, key=0)
    assert not circle.engine.pick(KernelSum(5000, 5000, 2, "float64")).exact
    assert circle.using(Auto(None)).engine.pick(KernelSum(5000, 5000, 2, "float64")) == Native()
    assert mf.sums.Sharded(Native()).exact
    assert not mf.sums.Sharded(mf.sums.Fourier()).exact
