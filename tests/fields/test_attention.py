"""Attention fields against the formulas of the papers, and the laws of fields."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow.fields import AbstractField, AbstractSelfAttention, Scaled, Sum
from measureflow.sums import Past

A = np.array([[0.7, -0.2, 0.1], [0.4, 1.1, 0.0], [-0.3, 0.2, 0.9]])
V = np.array([[1.0, 0.3, 0.0], [0.0, 0.8, -0.5], [0.2, 0.0, 1.2]])
FIELDS = {
    "softmax": mf.SoftmaxAttention(A, V),
    "unnormalised": mf.UnnormalisedAttention(A, V),
    "sum": mf.SoftmaxAttention(A, V) + 2.0 * mf.UnnormalisedAttention(A, V),
    "L2": mf.L2Attention(A, V, V),
    "sinkhorn": mf.SinkhornAttention(A, V),
    "symmetric sinkhorn": mf.SinkhornAttention(A + A.T, V),
    "sigmoid": mf.SigmoidAttention(A, V),
    "linear": mf.LinearAttention(A, V),
    "ReLU": mf.ReLUAttention(A, V),
    "hardmax": mf.HardmaxAttention(A, V),
    "own kernel": mf.KernelAttention(lambda s: 1 / (1 + s**2), normalise=True),
    "two heads": mf.MultiHead([mf.SoftmaxAttention(A, V), mf.SoftmaxAttention(V, A)]),
    "perceptron": mf.Perceptron(A, V, np.ones(3)),
    "layered": mf.Layered([mf.SoftmaxAttention(A, V), mf.SoftmaxAttention(V, A)]),
    "schedule": mf.Schedule([mf.L2Attention(A, V, V), mf.L2Attention(V, A, V)], [0.5]),
    "varying": mf.Varying(lambda t: mf.SoftmaxAttention(jnp.cos(t) * A, jnp.asarray(V))),
    "pre-norm": mf.Normalised(mf.SoftmaxAttention(A, V), mf.PreNorm()),
    "rescaled": mf.Rescaled(mf.SoftmaxAttention(A, V)),
    "gradient flow": mf.GradientFlow(mf.InteractionEnergy(1.5)),
}


@pytest.fixture(params=FIELDS.values(), ids=FIELDS.keys())
def field(request) -> AbstractField:
    return request.param


@pytest.fixture(scope="module")
def mu():
    return mf.Particles(mf.Euclidean(3), mf.Particles.iid(mf.Euclidean(3), 6, key=1).points, jnp.arange(1.0, 7.0))


ORDER = np.array([3, 1, 5, 0, 4, 2])


@eqx.filter_jit
def at(field, mu):
    return field(0.0, mu.points, mu)


@eqx.filter_jit
def disguised(field, mu):
    """The field at the tokens in another order, at one token after the other, and of tokens that are split in two."""
    shuffled = mf.Particles(mu.space, mu.points[ORDER], mu.weights[ORDER])
    double = mf.Particles(mu.space, jnp.concatenate([mu.points] * 2), jnp.concatenate([mu.weights] * 2))
    each = jax.lax.map(lambda x: field(0.0, x[None], mu)[0], mu.points)
    return field(0.0, shuffled.points, shuffled), each, field(0.0, mu.points, double)


def test_softmax_is_the_formula_of_the_paper(mu):
    x, w = np.asarray(mu.points), np.asarray(mu.weights)
    kernel = np.exp(x @ A.T @ x.T) * w
    expected = kernel / kernel.sum(1, keepdims=True) @ x @ V.T
    np.testing.assert_allclose(at(mf.SoftmaxAttention(A, V), mu), expected, rtol=1e-12)


def test_unnormalised_is_the_formula_of_the_paper(mu):
    x, w = np.asarray(mu.points), np.asarray(mu.weights)
    expected = (np.exp(x @ A.T @ x.T) * w) @ x @ V.T
    np.testing.assert_allclose(at(mf.UnnormalisedAttention(A, V), mu), expected, rtol=1e-12)


def test_a_field_is_the_same_under_jit(field, mu):
    # Sinkhorn sweeps stop at changes of 1e-12, and rounding decides which one is the last.
    np.testing.assert_allclose(at(field, mu), field(0.0, mu.points, mu), rtol=1e-10)


def test_a_field_commutes_with_permutations(field, mu):
    np.testing.assert_allclose(disguised(field, mu)[0], np.asarray(at(field, mu))[ORDER], rtol=1e-10)


def test_a_batch_of_points_gives_what_each_point_gives(field, mu):
    np.testing.assert_allclose(at(field, mu), disguised(field, mu)[1], rtol=1e-10)


def test_splitting_every_token_in_two_changes_nothing(field, mu):
    np.testing.assert_allclose(disguised(field, mu)[2], at(field, mu), rtol=1e-10)


def test_isotropic_attention_commutes_with_rotations(mu):
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    turned = mf.Particles(mu.space, np.asarray(mu.points) @ rotation.T, mu.weights)
    for kind in (
        mf.SoftmaxAttention,
        mf.UnnormalisedAttention,
        mf.L2Attention,
        mf.SinkhornAttention,
        mf.SigmoidAttention,
        mf.LinearAttention,
        mf.ReLUAttention,
        mf.HardmaxAttention,
    ):
        field = kind.isotropic(3, beta=0.8)
        np.testing.assert_allclose(at(field, turned), np.asarray(at(field, mu)) @ rotation.T, rtol=1e-10, atol=1e-12)


def test_fields_form_a_vector_space(mu):
    f, g = FIELDS["softmax"], FIELDS["unnormalised"]
    combined = 2.0 * f - g * 0.5 + (-f)
    assert isinstance(combined, Sum)
    expected = np.asarray(at(f, mu)) - 0.5 * np.asarray(at(g, mu))
    np.testing.assert_allclose(at(combined, mu), expected, rtol=1e-12, atol=1e-12)
    assert isinstance(2.0 * f, Scaled)


def test_every_attention_class_meets_the_laws_of_fields():
    def below(kind):
        return {leaf for child in kind.__subclasses__() for leaf in below(child)} or {kind}

    ours = {kind for kind in below(AbstractSelfAttention) if kind.__module__.startswith("measureflow.")}
    assert ours <= {type(field) for field in FIELDS.values()}


@pytest.mark.parametrize("name", [name for name, field in FIELDS.items() if field.exponential])
def test_causal_sums_in_blocks_are_those_row_by_row(name, mu):
    blocks, rows = mf.Causal(FIELDS[name]), mf.Causal(FIELDS[name], mf.ALiBi(0.0))  # a bias, even of zero, goes by rows
    np.testing.assert_allclose(blocks(0.0, mu.points, mu), rows(0.0, mu.points, mu), rtol=1e-11)


def test_sums_multiples_and_heads_are_as_exponential_as_their_parts():
    fast, slow = FIELDS["softmax"], FIELDS["sigmoid"]
    assert (fast + 2.0 * fast).exponential
    assert not (fast + slow).exponential
    assert not (2.0 * slow).exponential
    assert mf.MultiHead([fast, fast]).exponential
    assert not mf.MultiHead([slow, slow]).exponential


def test_a_new_attention_must_say_whether_it_is_exponential_and_then_takes_the_blocks(mu):
    seen = []

    def body(self, t, xs, mu):
        seen.append(type(mu.engine))
        return mu.attend(xs).mean

    new = type(AbstractSelfAttention)("New", (AbstractSelfAttention,), {"__call__": body, "exponential": True})
    mf.Causal(new())(0.0, mu.points, mu)
    assert seen == [Past]
    with pytest.raises(TypeError, match="The class `Silent` must declare `exponential: ClassVar"):
        type(AbstractSelfAttention)("Silent", (AbstractSelfAttention,), {"__call__": body})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: mf.L2Attention.bilinear(np.ones((2, 3)), V), "`interaction` must have shape (3, 3); got (2, 3)"),
        (lambda: mf.SoftmaxAttention(np.ones((2, 3)), np.eye(3)), "`interaction` must have shape (3, 3); got (2, 3)"),
        (lambda: mf.SoftmaxAttention(np.eye(3), np.eye(2)), "`value` must have shape (k, 3); got (2, 2)"),
        (lambda: mf.UnnormalisedAttention(np.full((2, 2), np.inf), np.eye(2)), "`interaction` has 4 NaN"),
    ],
)
def test_bad_matrices_get_a_sentence(make, words):
    with pytest.raises(ValueError, match="`") as caught:
        make()
    assert words in str(caught.value)


def test_the_rescaled_frame_is_that_of_growing_tokens(mu):
    """With `x = e^{tV} z` and a `V` that is not symmetric: `z' = e^{-tV} (x' - Vx)`, from NumPy's own exponential."""
    t, attention = 0.3, mf.SoftmaxAttention(A, V)
    growth = np.asarray(jax.scipy.linalg.expm(t * jnp.asarray(V)))
    steps = np.linalg.matrix_power(np.eye(3) + t * V / 2**20, 2**20)
    np.testing.assert_allclose(growth, steps, rtol=1e-5)
    x = np.asarray(mu.points) @ growth.T
    moved = np.asarray(at(attention, mf.Particles(mu.space, x, mu.weights))) - x @ V.T
    slow = eqx.filter_jit(lambda field, mu: field(t, mu.points, mu))(mf.Rescaled(attention), mu)
    np.testing.assert_allclose(slow, moved @ np.linalg.inv(growth).T, atol=1e-12)


def test_a_schedule_in_turns_is_not_followed_beyond_its_end(mu):
    turns = mf.Schedule.periodic([mf.SoftmaxAttention(A, V), mf.SoftmaxAttention(V, A)], period=0.5, until=1.0)
    with pytest.raises(ValueError, match="`field` has a schedule until t = 1, but `times` go to 2"):
        mf.evolve(turns, mu, [0.0, 2.0])
    with pytest.raises(ValueError, match="until t = 1"):
        mf.evolve(turns + mf.SoftmaxAttention(A, V), mu, [0.0, 2.0])


def test_isotropic_attention_costs_the_same_in_every_dimension():
    """Its matrices are a number each: written out, they would have 8 TB."""
    field = mf.SoftmaxAttention.isotropic(10**6, beta=2.0)
    mu = mf.Particles(mf.Euclidean(10**6), np.ones((1, 10**6)))
    np.testing.assert_allclose(field(0.0, mu.points, mu), 1.0)
    with pytest.raises(ValueError, match="`interaction` has 1 NaN or infinite entries out of 1"):
        mf.SoftmaxAttention.isotropic(10**6, beta=np.nan)
