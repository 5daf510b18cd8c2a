"""Each attention variant against the formula written out, and the identities between them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf

A = np.array([[0.7, -0.2, 0.1], [0.4, 1.1, 0.0], [-0.3, 0.2, 0.9]])
K = np.array([[0.5, 0.1, -0.4], [0.0, 0.9, 0.3]])
Q = np.array([[1.0, 0.2, 0.0], [-0.1, 0.4, 0.6]])
V = np.array([[1.0, 0.3, 0.0], [0.0, 0.8, -0.5], [0.2, 0.0, 1.2]])


@pytest.fixture(scope="module")
def mu():
    return mf.Particles(mf.Euclidean(3), mf.Particles.iid(mf.Euclidean(3), 7, key=1).points, jnp.arange(1.0, 8.0))


@eqx.filter_jit
def on_tokens(field, mu):
    return field(0.0, mu.points, mu)


def test_l2_is_the_formula_of_the_paper(mu):
    x, w = np.asarray(mu.points), np.asarray(mu.weights)
    kernel = w * np.exp(-(((x @ Q.T)[:, None] - (x @ K.T)[None]) ** 2).sum(-1))
    expected = kernel / kernel.sum(1, keepdims=True) @ x @ V.T
    np.testing.assert_allclose(on_tokens(mf.L2Attention(Q, K, V), mu), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("kind", "kernel"),
    [
        (mf.SigmoidAttention, lambda s: 1 / (1 + np.exp(-s))),
        (mf.LinearAttention, lambda s: s),
        (mf.ReLUAttention, lambda s: np.maximum(s, 0)),
    ],
)
def test_kernels_of_the_score_are_the_formulas_of_the_paper(kind, kernel, mu):
    x, w = np.asarray(mu.points), np.asarray(mu.weights)
    expected = (w * kernel(x @ A.T @ x.T)) @ x @ V.T
    np.testing.assert_allclose(on_tokens(kind(A, V), mu), expected, rtol=1e-11, atol=1e-13)


def test_an_own_exponential_kernel_is_softmax_or_unnormalised_attention(mu):
    softmax = mf.KernelAttention(jnp.exp, normalise=True, interaction=A, value=V)
    np.testing.assert_allclose(on_tokens(softmax, mu), on_tokens(mf.SoftmaxAttention(A, V), mu), rtol=1e-12)
    plain = mf.KernelAttention(jnp.exp, interaction=A, value=V)
    np.testing.assert_allclose(on_tokens(plain, mu), on_tokens(mf.UnnormalisedAttention(A, V), mu), rtol=1e-12)


@pytest.mark.parametrize("form", [A, A + A.T, -np.eye(3)], ids=["general", "symmetric", "negative"])
def test_sinkhorn_marginals_are_one(form, mu):
    found = eqx.filter_jit(lambda field, mu: field.potentials(mu))(mf.SinkhornAttention(form, V), mu)
    x, w = np.asarray(mu.points), np.asarray(mu.weights)
    kernel = np.exp(x @ form.T @ x.T + np.asarray(found.query)[:, None] + np.asarray(found.key)[None])
    np.testing.assert_allclose(kernel @ w, 1.0, atol=1e-10)
    np.testing.assert_allclose(w @ kernel, 1.0, atol=1e-10)
    assert found.error < 1e-10
    assert 0 < found.sweeps < 2000


def test_the_symmetric_sweep_finds_the_general_fixed_point(mu):
    form = A + A.T
    general = jax.jit(lambda A: mf.SinkhornAttention(A, jnp.asarray(V))(0.0, mu.points, mu))(jnp.asarray(form))
    assert mf.SinkhornAttention(form, V).symmetric
    np.testing.assert_allclose(on_tokens(mf.SinkhornAttention(form, V), mu), general, atol=1e-10)


def test_sinkhorn_without_sweeps_is_softmax(mu):
    half = mf.SinkhornAttention(A, V, sweeps=0)
    np.testing.assert_allclose(on_tokens(half, mu), on_tokens(mf.SoftmaxAttention(A, V), mu), rtol=1e-14)


@pytest.mark.parametrize("form", [A, A + A.T], ids=["general", "symmetric"])
def test_sinkhorn_derivatives_are_those_of_the_fixed_point(form, mu):
    field = mf.SinkhornAttention(form, V)
    direction, h = np.cos(np.arange(21.0)).reshape(7, 3), 1e-5

    def push(points):
        return field(0.0, points, mf.Particles(mu.space, points, mu.weights))

    @jax.jit
    def derivatives(points, direction):
        difference = (push(points + h * direction) - push(points - h * direction)) / (2 * h)
        return difference, jax.jvp(push, (points,), (direction,))[1], jax.vjp(push, points)[1](direction)[0]

    difference, tangent, cotangent = map(np.asarray, derivatives(mu.points, jnp.asarray(direction)))
    # Central differences: h^2 = 1e-10 times third derivatives, and the sweeps' 1e-12 / h = 1e-7.
    np.testing.assert_allclose(tangent, difference, atol=1e-6)
    np.testing.assert_allclose(np.sum(cotangent * direction), np.sum(tangent * direction), rtol=1e-8)


def test_bilinear_l2_has_the_scores_of_softmax_beside_the_squared_norms(mu):
    x, w = np.asarray(mu.points), np.asarray(mu.weights)
    kernel = np.exp(x @ A.T @ x.T - np.sum(x**2, 1) / 2) * w  # what belongs to the query alone cancels
    expected = kernel / kernel.sum(1, keepdims=True) @ x @ V.T
    np.testing.assert_allclose(on_tokens(mf.L2Attention.bilinear(A, V), mu), expected, rtol=1e-12)
    sphere = mf.Particles.iid(mf.Sphere(3), 7, key=0)
    np.testing.assert_allclose(
        on_tokens(mf.L2Attention.bilinear(A, V), sphere), on_tokens(mf.SoftmaxAttention(A, V), sphere), rtol=1e-12
    )


def test_l2_on_the_sphere_is_softmax():
    mu = mf.Particles.iid(mf.Sphere(4), 9, key=0)
    l2, softmax = mf.L2Attention.isotropic(4, 3.0), mf.SoftmaxAttention.isotropic(4, 3.0)
    np.testing.assert_allclose(on_tokens(l2, mu), on_tokens(softmax, mu), rtol=1e-12)


def test_hardmax_is_the_limit_of_softmax(mu):
    hard = on_tokens(mf.HardmaxAttention(A, V), mu)
    soft = on_tokens(mf.SoftmaxAttention(1e4 * A, V), mu)
    np.testing.assert_allclose(hard, soft, atol=1e-10)


def test_hardmax_ties_are_averaged_by_weight():
    mu = mf.Particles(mf.Euclidean(2), [[1.0, 1.0], [1.0, -1.0], [-1.0, 0.0]], [1.0, 3.0, 1.0])
    field = mf.HardmaxAttention(np.eye(2), np.eye(2))
    np.testing.assert_allclose(field(0.0, jnp.array([[2.0, 0.0]]), mu)[0], [1.0, -0.5], rtol=1e-14)


def test_linear_attention_moves_the_second_moment_by_its_closed_law(mu):
    field = mf.LinearAttention(A, V)
    x, w, v = (np.asarray(array) for array in (mu.points, mu.weights, on_tokens(field, mu)))
    S = (w * x.T) @ x
    rate = (w * v.T) @ x
    np.testing.assert_allclose(rate + rate.T, V @ S @ A @ S + (V @ S @ A @ S).T, rtol=1e-11)


@pytest.mark.parametrize("kind", [mf.LinearAttention, mf.ReLUAttention])
def test_a_single_token_blows_up_when_the_cubic_law_says(kind):
    start = mf.Particles(mf.Euclidean(1), [[0.7]])
    path = mf.evolve(kind.isotropic(1), start, [0.0, 2.0])
    assert path.stats["blow_up_time"] == pytest.approx(1 / (2 * 0.7**2), rel=1e-6)


VARIANTS = {
    "softmax": mf.SoftmaxAttention(A, V),
    "L2": mf.L2Attention(Q, K, V),
    "sinkhorn": mf.SinkhornAttention(A, V, tolerance=1e-6),
    "sigmoid": mf.SigmoidAttention(A, V),
    "linear": mf.LinearAttention(A, V),
    "ReLU": mf.ReLUAttention(A, V),
    "hardmax": mf.HardmaxAttention(A, V),
    "causal": mf.Causal(mf.SoftmaxAttention(A, V), mf.ALiBi(1.0)),
    "heads": mf.MultiHead([mf.SoftmaxAttention(A, V), mf.SoftmaxAttention(V, A)]),
    "pre-norm": mf.Normalised(mf.SoftmaxAttention(A, V), mf.PreNorm()),
}


@pytest.mark.parametrize("field", VARIANTS.values(), ids=VARIANTS.keys())
def test_float32_agrees_with_float64(field, mu):
    single = mf.Particles(mu.space, mu.points.astype(jnp.float32), mu.weights.astype(jnp.float32))
    one, two = (mf.layers(field, start, 2, 0.1).final.points for start in (single, mu))
    assert one.dtype == jnp.float32
    # Scores up to 10 carry 10 roundings of 6e-8 into the exponent; the Sinkhorn sweeps stop at 1e-6.
    np.testing.assert_allclose(one, two, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["L2", "sinkhorn", "causal", "heads", "pre-norm"])
def test_gradients_through_evolve_match_finite_differences(name, mu):
    field = mf.SinkhornAttention(A, V) if name == "sinkhorn" else VARIANTS[name]
    direction = jnp.cos(jnp.arange(21.0)).reshape(7, 3)

    @jax.jit
    def size(points):
        start = mf.Particles(mu.space, points, mu.weights)
        return (mf.evolve(field, start, [0.0, 0.2], mf.RK4(0.05)).final.points ** 2).sum()

    h = 1e-5
    difference = (size(mu.points + h * direction) - size(mu.points - h * direction)) / (2 * h)
    slope = jnp.sum(jax.grad(size)(mu.points) * direction)
    # h^2 = 1e-10 times third derivatives, and the 1e-12 of the sweeps over h = 1e-7.
    np.testing.assert_allclose(slope, difference, rtol=1e-5)


def test_no_variant_builds_all_pairs_for_many_tokens():
    n = 4096
    shape = jax.ShapeDtypeStruct((n, 3), jnp.float64)
    engine = mf.sums.Blockwise(pairs=2**17)
    fields = [
        mf.SoftmaxAttention.isotropic(3),
        mf.L2Attention.isotropic(3),
        mf.SigmoidAttention.isotropic(3),
        mf.LinearAttention.isotropic(3),
        mf.HardmaxAttention.isotropic(3),
        mf.SinkhornAttention.isotropic(3),
        mf.Causal(mf.SoftmaxAttention.isotropic(3), mf.ALiBi(1.0)),
    ]
    for field in fields:

        def energy(points, field=field):
            mu = mf.Particles(mf.Euclidean(3), points, engine=engine)
            return (field(0.0, points, mu) ** 2).sum()

        for function in (energy, jax.grad(energy)):
            memory = jax.jit(function).lower(shape).compile().memory_analysis().temp_size_in_bytes
            # All pairs take 8 n^2 = 134 MB; blocks of 2^17 scores 1 MB each, a few dozen of them.
            assert memory < 4e7, type(field).__name__


BAD = {
    "key shape": (lambda: mf.L2Attention(Q, np.eye(3), V), "`key` must have shape (2, 3); got (3, 3)"),
    "value": (lambda: mf.SigmoidAttention(A, np.eye(2)), "`value` must have shape (k, 3)"),
    "not square": (lambda: mf.SinkhornAttention(np.ones((2, 3)), np.eye(3)), "A = K^T Q"),
    "own kernel": (
        lambda: mf.KernelAttention(jnp.exp, interaction=np.ones((2, 3))),
        "`interaction` must have shape (3, 3)",
    ),
    "no energy": (lambda: mf.SinkhornEnergy(A), "`form` must be symmetric"),
    "no energy either": (lambda: mf.SinkhornEnergy(np.ones((2, 3))), "`form` must have shape"),
}


@pytest.mark.parametrize(("make", "words"), BAD.values(), ids=BAD.keys())
def test_bad_matrices_get_a_sentence(make, words):
    with pytest.raises(ValueError, match="`") as caught:
        make()
    assert words in str(caught.value)


def test_a_field_of_the_wrong_size_is_refused(mu):
    with pytest.raises(ValueError, match="`velocity` must have shape"):
        mf.evolve(mf.SoftmaxAttention(A, V[:2]), mu, [0.0, 1.0])
