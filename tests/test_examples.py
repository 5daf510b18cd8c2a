"""Every public name shows itself in an example, which runs and prints what it says."""

import doctest
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf

NAMES = [name for name in mf.__all__ if not isinstance(getattr(mf, name), types.ModuleType)]
WORDS = {"mf": mf, "jax": jax, "jnp": jnp, "np": np}


@pytest.mark.parametrize("name", NAMES)
def test_example_prints_what_it_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # for an example that writes a file
    shown = doctest.DocTestParser().get_doctest(getattr(mf, name).__doc__ or "", dict(WORDS), name, None, None)
    assert shown.examples, f"the docstring of `mf.{name}` has no `>>>` example"
    said = []
    assert not doctest.DocTestRunner(verbose=False).run(shown, out=said.append).failed, "".join(said)
