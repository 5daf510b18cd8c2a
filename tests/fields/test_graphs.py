"""Graphs as operators, against dense matrices and networkx."""

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import measureflow as mf
from measureflow.fields import graphs
from measureflow.networks import similarity

RNG = np.random.default_rng(0)
KARATE = nx.karate_club_graph()  # its edges have weights
X = RNG.normal(size=(34, 3))


def dense(A, walk):
    """The operator as a matrix."""
    B = A + np.eye(len(A))
    d = B.sum(1)
    return B / d[:, None] if walk else B / np.sqrt(np.outer(d, d))


@pytest.mark.parametrize("walk", [False, True])
def test_a_graph_is_its_normalised_adjacency(walk):
    A = nx.to_numpy_array(KARATE)
    P, graph = dense(A, walk), mf.Graph.of_networkx(KARATE, walk=walk)
    np.testing.assert_allclose(graph(jnp.asarray(X)), P @ X, rtol=1e-12)
    spectrum = graph.spectrum()
    np.testing.assert_allclose(spectrum.values, np.sort(np.linalg.eigvals(P).real)[::-1], atol=1e-12)
    assert spectrum.complete
    v = np.asarray(graph.dominant)
    np.testing.assert_allclose(P @ v, v, rtol=1e-12)
    lead = np.asarray(graph.project(jnp.asarray(X)))
    np.testing.assert_allclose(P @ lead, lead, rtol=1e-12)  # in the eigenspace
    powers = np.linalg.matrix_power(P, 600) @ X  # what is left of the features
    np.testing.assert_allclose(lead, powers, rtol=1e-9)
    assert float(similarity(graph, jnp.asarray(lead))) < 1e-14


def test_the_operator_is_the_laplacian_of_networkx_with_loops():
    loops = nx.Graph(KARATE)
    loops.add_weighted_edges_from((v, v, 1.0) for v in KARATE)
    L = nx.normalized_laplacian_matrix(loops).toarray()
    np.testing.assert_allclose(mf.Graph.of_networkx(KARATE)(jnp.asarray(X)), X - L @ X, rtol=1e-11, atol=1e-13)


def test_names_of_vertices_do_not_matter():
    order = RNG.permutation(34)
    A = nx.to_scipy_sparse_array(KARATE, dtype=float)
    graph, renamed = mf.Graph(A), mf.Graph(A[order][:, order])
    np.testing.assert_allclose(renamed(jnp.asarray(X[order])), graph(jnp.asarray(X))[order], rtol=1e-12)
    np.testing.assert_allclose(similarity(renamed, jnp.asarray(X[order])), similarity(graph, jnp.asarray(X)))


def test_components_are_averaged_apart():
    graph = mf.Graph.of_edges([[0, 1], [2, 3], [3, 4]], n=6)
    assert (graph.components, graph.sizes.tolist(), graph.edges) == (3, [3, 2, 1], 3)
    spectrum = graph.spectrum()
    assert (spectrum.values[:3] == 1).all()
    assert np.abs(spectrum.rest).max() < 1 - 1e-6
    x = np.array([[1.0], [1.0], [4.0], [4.0], [4.0], [9.0]])
    walk = mf.Graph.of_edges([[0, 1], [2, 3], [3, 4]], n=6, walk=True)
    np.testing.assert_allclose(walk.project(jnp.asarray(x)), x, rtol=1e-14)  # constants on components stay


def test_lanczos_finds_the_ends_of_the_spectrum(monkeypatch):
    random = nx.disjoint_union(nx.gnp_random_graph(120, 0.06, seed=1), nx.complete_bipartite_graph(2, 3))
    graph = mf.Graph.of_networkx(random)
    whole = graph.spectrum()
    monkeypatch.setattr(graphs, "DENSE", 10)
    ends = graph.spectrum()
    assert not ends.complete
    assert ends.components == whole.components > 1
    np.testing.assert_allclose(ends.rest[0], whole.rest[0], rtol=1e-10)
    assert ends.error < 1e-7
    np.testing.assert_allclose(ends.rest[1], whole.rest[-1], atol=1e-3)


def test_an_eigenvalue_that_is_largest_in_size_is_exact_at_either_end(monkeypatch):
    """Of heavy bipartite graphs the lowest eigenvalue is near -1; stars have few eigenvalues, so that Lanczos ends early."""
    for random in (nx.bipartite.random_graph(40, 50, 0.2, seed=2), nx.star_graph(90)):
        graph = mf.Graph(20 * nx.to_scipy_sparse_array(random, dtype=float))
        whole = graph.spectrum()
        assert whole.rest[-1] < -whole.rest[0]
        monkeypatch.setattr(graphs, "DENSE", 10)
        np.testing.assert_allclose(graph.spectrum().rest, whole.rest[[0, -1]], rtol=1e-9, atol=1e-9)
        monkeypatch.undo()


def test_eigenvalues_that_crowd_are_known_within_their_error(monkeypatch):
    """Of a cycle they are `(1 + 2 cos(2 pi k / n)) / 3`."""
    monkeypatch.setattr(graphs, "STEPS", 300)
    n = 2500
    spectrum = mf.Graph.of_edges(np.stack([np.arange(n), (np.arange(n) + 1) % n], 1)).spectrum()
    second = (1 + 2 * np.cos(2 * np.pi / n)) / 3
    assert second - max(spectrum.error, 1e-12) <= spectrum.rest[0] <= second + 1e-12
    assert 1e-7 < spectrum.error < 1e-3


def test_a_convolution_is_a_field_of_layers_and_flows():
    graph, W = mf.Graph.of_networkx(KARATE), RNG.normal(size=(3, 3)) / 3
    start, P = mf.Particles(mf.Euclidean(3), X), dense(nx.to_numpy_array(KARATE), False)
    path = mf.layers(mf.GraphConvolution(graph, W, jax.nn.relu), start, depth=2, step=0.5)
    x = X
    for _ in range(2):
        x = x + 0.5 * np.maximum(P @ x @ W, 0)
    np.testing.assert_allclose(path.final.points, x, rtol=1e-12)
    fields = [mf.GraphConvolution(graph, W), mf.GraphConvolution(graph, -W)]
    deep = mf.layers(mf.Layered(fields), start, depth=2)
    expected = (X + P @ X @ W) - P @ (X + P @ X @ W) @ W
    np.testing.assert_allclose(deep.final.points, expected, rtol=1e-11, atol=1e-12)


def test_files_hold_graphs(tmp_path):
    A = nx.to_scipy_sparse_array(KARATE, dtype=float)
    sparse.save_npz(tmp_path / "a.npz", A)
    lines = [f"v{u:02d} v{v:02d} {w}" for u, v, w in KARATE.edges(data="weight")]
    (tmp_path / "b.txt").write_text("# karate\n" + "\n".join(lines) + "\n\n")
    (tmp_path / "c.csv").write_text("\n".join(line.replace(" ", ",") for line in lines))
    nx.write_graphml(KARATE, tmp_path / "d.graphml")
    nx.write_gml(KARATE, tmp_path / "e.gml")
    for name in ("a.npz", "b.txt", "c.csv", "d.graphml", "e.gml"):
        np.testing.assert_allclose(mf.Graph.read(tmp_path / name).degrees, A.sum(1) + 1, err_msg=name)


WRONG = {
    "edge 2 reads '1', not": ("a.txt", "0 1\n1\n"),
    "it has no edges": ("a.txt", "\n"),
    "could not convert string": ("a.txt", "0 1 heavy\n"),
    "must end in .txt": ("a.doc", ""),
    "holds no graph": ("a.npz", "no"),
    "must not have negative weights; got -1": ("a.txt", "0 1 -1\n"),
    "'a.gml' holds no graph": ("a.gml", "graph ["),
    "the first line reads 'source' and 'target'": ("a.csv", "source,target\nann,bob\n"),
    "the first line reads 'u' and 'v'": ("a.txt", "u v\n0 1\n1 2\n"),
    "one edge with the weights 0.5 and 2, in rows 1 and 3": ("a.txt", "0 1 0.5\n1 2 1\n1 0 2\n"),
    "has 1 NaN or infinite entries": ("a.txt", "0 1 nan\n"),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_a_bad_file_gets_a_sentence(sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, text = WRONG[sentence]
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=sentence.replace("[", r"\[")):
        mf.Graph.read(name)


SENTENCES = {
    "square": (lambda: mf.Graph(np.ones((2, 3))), "must be a square matrix"),
    "symmetric": (lambda: mf.Graph(np.array([[0.0, 1.0], [0.0, 0.0]])), "use A \\+ A.T"),
    "whole": (lambda: mf.Graph.of_edges([[0.5, 1.0]]), "whole numbers from 0"),
    "few": (lambda: mf.Graph.of_edges([[0, 5]], n=3), "has vertex 5"),
    "rows": (lambda: mf.Graph.of_edges([[0], [1]]), "rows `u, v` or"),
    "weights": (lambda: mf.GraphConvolution(mf.Graph.of_edges([[0, 1]]), np.ones((2, 3))), "`W` must be square"),
    "vertices": (lambda: mf.Graph.of_edges([[0, 1]])(jnp.ones((3, 2))), r"must have shape \(2, d\)"),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_what_cannot_be_gets_a_sentence(name):
    build, sentence = SENTENCES[name]
    with pytest.raises(ValueError, match=sentence):
        build()


DAMAGE = {
    "beyond": ("indices", 3, 99, "must be < 5"),
    "negative": ("indices", 3, -7, "must be >= 0"),
    "wild pointer": ("indptr", 2, 10**6, "non-decreasing"),
    "last pointer": ("indptr", -1, 10**9, "less than the size"),
    "first pointer": ("indptr", 0, 3, "start with 0"),
    "weight": ("data", 0, np.nan, "NaN or infinite"),
    "half a place": ("indices", 0, 0.5, "name no places"),
}


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("name", DAMAGE)
def test_places_outside_of_a_sparse_matrix_are_refused_before_they_are_visited(name, kind, tmp_path):
    """The routines of sparse matrices do not look: such places end the process."""
    part, place, value, words = DAMAGE[name]
    A = sparse.csr_array(np.ones((5, 5)) - np.eye(5))
    held = {"indices": A.indices, "indptr": A.indptr, "data": A.data}
    held[part] = held[part].astype(type(value))
    held[part][place] = value
    np.savez(tmp_path / "a.npz", format=kind.encode(), shape=A.shape, **held)
    with pytest.raises(ValueError, match=f"holds no graph: .*{words}"):
        mf.Graph.read(tmp_path / "a.npz")


def test_a_graph_that_does_not_fit_into_memory_is_refused_unbuilt():
    with pytest.raises(ValueError, match=r"`adjacency` would need about 64 TB of memory"):
        mf.Graph(sparse.coo_array(([1.0], ([0], [0])), (10**12, 10**12)))


@pytest.mark.parametrize("kind", ["edges", "matrix"])
def test_any_file_is_a_graph_or_a_sentence(kind, foreign, tmp_path):
    said, read = [], 0
    for seed in range(100):
        try:
            graph = mf.Graph.read(foreign.GRAPHS[kind](np.random.default_rng(seed), tmp_path))
        except ValueError as error:
            said.append(str(error))
        else:
            read += 1
            assert np.isfinite(np.asarray(graph.entries)).all(), seed
            assert (np.asarray(graph.degrees) >= 1).all(), seed
    assert 0 < read < 100
    assert all(sentence.endswith(".") for sentence in said)
