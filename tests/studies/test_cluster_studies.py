"""Where the claims about clusters need a hypothesis, and the measures of polytopes that their studies use."""

import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow.studies.clusters import negative_key_query_contracts_hardmax_to_zero as frank_wolfe
from measureflow.studies.clusters import polytopes as polytope

SQUARE = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])


def test_distances_to_a_square():
    inside, outside, edge = np.array([[0.5, 0.0]]), np.array([[0.0, 3.0]]), np.array([[1.0, 0.3]])
    assert polytope.excess(SQUARE, inside) == pytest.approx(-0.5)
    assert polytope.excess(SQUARE, outside) == pytest.approx(2.0)
    assert polytope.off_boundary(np.concatenate([SQUARE, inside, edge])) == pytest.approx(
        [0, 0, 0, 0, 0.5, 0], abs=1e-12
    )


def test_only_a_point_that_no_vertex_outscores_is_at_rest():
    tokens = np.concatenate([SQUARE, [[1.0, 0.0], [1.0, 0.3], [0.0, 0.0]]])
    assert polytope.off_rest(tokens, np.eye(2)) == pytest.approx([0, 0, 0, 0, 0, 0.21, 0], abs=1e-12)


def test_a_vertex_of_the_hull_that_scores_another_higher_moves_under_hardmax():
    """A positive form keeps a vertex fixed only if `<Bx, x>` is its largest score."""
    tokens = np.array([[1.0, 0.0], [-0.5, 0.0], [0.5, 0.1]])
    path = frank_wolfe.steps(1.0, tokens)
    assert np.abs(path[:, :2] - tokens[:2]).max() < 1e-12
    assert np.abs(path[-1, 2] - tokens[0]).max() < 1e-9


def test_hardmax_with_a_negative_form_does_not_leave_the_hull_to_reach_zero():
    tokens = np.array([[1.0, 0.0], [2.0, 1.0], [2.0, -1.0]])
    assert frank_wolfe.steps(-1.0, tokens)[-1, :, 0].min() >= 1


def test_the_largest_norm_may_grow_when_tokens_flee_their_mean():
    """With `V = -I` it falls from centred clouds; here nine tokens push the tenth away first."""
    mu = mf.Particles(mf.Euclidean(1), np.append(np.full(9, -0.1), 0.11)[:, None])
    path = mf.evolve(mf.SoftmaxAttention([[1.0]], [[-1.0]]), mu, [0.0, 0.5, 500.0])
    largest = [float(jnp.abs(frame.points).max()) for frame in path]
    assert largest[1] > 1.2 * largest[0] > largest[2]
