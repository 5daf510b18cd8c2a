"""Graphs as operators: features at the vertices, averaged over neighbours.

With self loops the adjacency `A + I` has degrees `D`, and `P` is either symmetric, `D^{-1/2} (A + I) D^{-1/2}`, or the random
walk `D^{-1} (A + I)`. Both have one spectrum, with the eigenvalue 1 once for each connected component and all others strictly
between -1 and 1. `P` is kept as its entries alone, so that a graph costs what its edges cost.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Inexact, Int
from scipy import sparse
from scipy.linalg import eigh_tridiagonal
from scipy.sparse import csgraph

from measureflow import checks, files, memory
from measureflow.annotations import Number, Numbers
from measureflow.fields.base import AbstractField
from measureflow.measures import AbstractMeasure

DENSE = 2000
"""Up to so many vertices all eigenvalues are computed."""
STEPS = 3000
"""Steps of Lanczos that are enough for a sixth digit where eigenvalues crowd at the end, as those of long cycles do."""
PLACES = ("indices", "indptr", "row", "col", "offsets")
"""Arrays of a stored sparse matrix that say where its entries are."""
HEADINGS = ("source", "target", "from", "to", "src", "dst", "node1", "node2")
"""Words that name columns of edges, and hardly vertices."""
FILES = (".txt", ".edges", ".csv", ".tsv", ".npz", ".graphml", ".gml")
"""Endings of files that hold a graph."""


class Spectrum(NamedTuple):
    """Eigenvalues of `P` from the largest down; the first `components` of them are 1.

    Of large graphs there are those at both ends alone, and `complete` is false; `error` bounds that of the largest in size.
    """

    values: np.ndarray
    components: int
    complete: bool
    error: float = 0.0

    @property
    def rest(self) -> np.ndarray:
        """Those below the dominant one."""
        return self.values[self.components :]


@final
class Graph(eqx.Module):
    """An undirected graph with self loops, as the operator `P` on features of its vertices.

    `adjacency` is a symmetric matrix of weights that are not negative, sparse or not. With `walk` it is the random walk
    `D^{-1} (A + I)`, which averages over neighbours; otherwise the symmetric `D^{-1/2} (A + I) D^{-1/2}`.

    >>> graph = mf.Graph(np.ones((2, 2)) - np.eye(2))  # one edge
    >>> graph(jnp.array([[1.0], [0.0]])).tolist()
    [[0.5], [0.5]]
    >>> graph.spectrum().values.round(12).tolist()
    [1.0, 0.0]
    """

    targets: Int[Array, " e"]
    sources: Int[Array, " e"]
    entries: Float[Array, " e"]
    degrees: Float[Array, " n"]
    component: Int[Array, " n"]
    components: int = eqx.field(static=True)
    walk: bool = eqx.field(static=True)

    def __init__(self, adjacency: Any, *, walk: bool = False):
        A = _checked(adjacency)
        loops = sparse.csr_array(A + sparse.eye_array(len(A.indptr) - 1))
        degrees = np.asarray(loops.sum(1)).ravel()
        rows, columns = np.repeat(np.arange(len(degrees)), np.diff(loops.indptr)), loops.indices
        count, component = csgraph.connected_components(A, directed=False)
        scale = degrees[rows] if walk else np.sqrt(degrees[rows] * degrees[columns])
        index = np.int32 if len(degrees) < 2**31 else np.int64
        self.targets, self.sources = jnp.asarray(rows.astype(index)), jnp.asarray(columns.astype(index))
        self.entries, self.degrees = checks.floating(loops.data / scale), checks.floating(degrees)
        self.component, self.components, self.walk = jnp.asarray(component.astype(index)), int(count), walk

    @classmethod
    def of_edges(cls, edges: Numbers, n: int | None = None, *, walk: bool = False) -> "Graph":
        """The graph of rows `u, v` or `u, v, weight`, with vertices from 0; an edge that is listed twice counts once.

        >>> mf.Graph.of_edges([[0, 1], [1, 2], [1, 0]]).degrees.tolist()
        [2.0, 3.0, 2.0]
        """
        return cls(_matrix(np.asarray(edges), n), walk=walk)

    @classmethod
    def of_networkx(cls, graph: Any, *, walk: bool = False) -> "Graph":
        """The graph of a graph of networkx, in the order of its nodes; directions are forgotten."""
        import networkx

        return cls(networkx.to_scipy_sparse_array(networkx.Graph(graph), dtype=float), walk=walk)

    @classmethod
    def read(cls, file: str | Path, *, walk: bool = False) -> "Graph":
        """The graph in a file: lines `u v` or `u v weight`, a sparse matrix of SciPy (npz), GraphML or GML."""
        path = Path(file)
        if path.suffix not in FILES:
            raise ValueError(f"A file of a graph must end in {', '.join(FILES)}; got {str(file)!r}.")
        try:
            if path.suffix == ".npz":
                _check_places(files.arrays(path))
                return cls(sparse.load_npz(path), walk=walk)
            files.text(path, files.CELL)
            if path.suffix in (".graphml", ".gml"):
                import networkx

                read = networkx.read_graphml if path.suffix == ".graphml" else networkx.read_gml
                return cls.of_networkx(read(path), walk=walk)
            return cls(_matrix(*_lines(path)), walk=walk)
        except ImportError:
            raise ValueError(f"{str(file)!r} needs networkx: pip install measureflow[graphs].") from None
        except Exception as error:
            raise ValueError(f"{str(file)!r} holds no graph: {str(error).rstrip('.')}.") from None

    @property
    def n(self) -> int:
        """The number of vertices."""
        return len(self.degrees)

    @property
    def edges(self) -> int:
        """The number of edges between different vertices."""
        return int(np.sum(np.asarray(self.targets) < np.asarray(self.sources)))

    @property
    def sizes(self) -> np.ndarray:
        """How many vertices the components have, from the largest down."""
        return np.sort(np.bincount(np.asarray(self.component)))[::-1]

    @property
    def dominant(self) -> Float[Array, " n"]:
        """The eigenvector of the eigenvalue 1, on each component: `D^{1/2} 1`, or `1` of a random walk."""
        return jnp.ones_like(self.degrees) if self.walk else jnp.sqrt(self.degrees)

    @property
    def masses(self) -> Float[Array, " n"]:
        """Weights of the vertices in the inner product in which `P` is symmetric: 1, or degrees of a random walk."""
        return self.degrees if self.walk else jnp.ones_like(self.degrees)

    def __call__(self, x: Inexact[Array, "n d"]) -> Inexact[Array, "n d"]:
        """The features `P x`."""
        checks.shaped("x", x, (self.n, "d"), "There is a row of features for each vertex.")
        parts = self.entries[:, None].astype(x.dtype) * x[self.sources]
        return jax.ops.segment_sum(parts, self.targets, self.n, indices_are_sorted=True)

    def coordinates(self, x: Inexact[Array, "n d"]) -> Inexact[Array, "c d"]:
        """The multiples of the dominant eigenvector that are in `x`, one for each component."""
        sums = lambda values: jax.ops.segment_sum(values, self.component, self.components)  # noqa: E731
        r, m = self.dominant.astype(x.dtype), self.masses.astype(x.dtype)
        return sums((m * r)[:, None] * x) / sums(m * r * r)[:, None]

    def project(self, x: Inexact[Array, "n d"]) -> Inexact[Array, "n d"]:
        """The part of `x` in the dominant eigenspace, `Pi x`, orthogonal in the inner product of the masses."""
        return self.dominant.astype(x.dtype)[:, None] * self.coordinates(x)[self.component]

    def norm(self, x: Inexact[Array, "n d"]) -> Float[Array, ""]:
        """The Frobenius norm, with the masses as weights."""
        return jnp.sqrt(jnp.sum(self.masses.astype(x.real.dtype)[:, None] * jnp.abs(x) ** 2))

    def spectrum(self) -> Spectrum:
        """All eigenvalues of a small graph; of a large one the first below the dominant one and the lowest, by Lanczos.

        Of a large graph the first is known to rounding, where it stands apart, and the lowest within a thousandth, or as well
        if it is larger in size.
        """
        S, c = self._symmetric(), self.components
        complete = self.n <= max(DENSE, c + 2)
        rest, error = (np.linalg.eigvalsh(S.toarray())[: self.n - c], 0.0) if complete else self._ends(S)
        return Spectrum(np.concatenate([np.ones(c), np.sort(rest)[::-1]]), c, complete, error)

    def _symmetric(self) -> sparse.csr_array:
        """`D^{1/2} P D^{-1/2}`, which is symmetric for both kinds."""
        rows, columns = np.asarray(self.targets), np.asarray(self.sources)
        d, entries = (np.asarray(part, np.float64) for part in (self.degrees, self.entries))
        scale = np.sqrt(d[rows] / d[columns]) if self.walk else 1.0
        return sparse.csr_array((entries * scale, (rows, columns)), (self.n, self.n))

    def _ends(self, S: sparse.csr_array) -> tuple[np.ndarray, float]:
        """The eigenvalues at both ends, with those that are 1 moved to 0, which lies between the ends."""
        root, component = np.sqrt(np.asarray(self.degrees, np.float64)), np.asarray(self.component)
        volumes = np.bincount(component, root**2)

        def without(x: np.ndarray) -> np.ndarray:
            return S @ x - root * (np.bincount(component, root * x) / volumes)[component]

        return _lanczos(without, np.random.default_rng(0).normal(size=self.n))


@final
class GraphConvolution(AbstractField):
    """The layer of a graph network, `v(x) = s(P x W)`: features are averaged over neighbours, then mixed.

    Tokens are vertices, in the order of the graph. `layers(field, mu, depth, alpha)` is the residual network
    `x <- x + alpha P x W`. Without an activation `s` it is linear.

    >>> graph = mf.Graph.of_edges([[0, 1]])
    >>> mu = mf.Particles(mf.Euclidean(1), [[1.0], [0.0]])
    >>> mf.GraphConvolution(graph, [[2.0]])(0.0, mu.points, mu).tolist()
    [[1.0], [1.0]]
    """

    graph: Graph
    W: Float[Array, "d d"] = eqx.field(converter=checks.floating)
    activation: Callable[[Array], Array] | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        square("W", self.W)

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The velocities of all vertices."""
        v = self.graph(xs) @ self.W.astype(xs.dtype)
        return v if self.activation is None else self.activation(v)


def _lanczos(apply: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> tuple[np.ndarray, float]:
    """The smallest and the largest eigenvalue of a symmetric operator, and a bound of the error of the larger in size.

    Without orthogonalisation eigenvalues come back as copies of themselves, which does not harm those at the ends. Errors are
    below the residual, and for an eigenvalue that stands apart below its square over the distance to the next.
    """
    q, before, beta, look = start / np.linalg.norm(start), np.zeros_like(start), 0.0, 10
    diagonal, beside = [], []
    while True:
        w = apply(q) - beta * before
        diagonal.append(q @ w)
        w -= diagonal[-1] * q
        beta, m = float(np.linalg.norm(w)), len(diagonal)
        last = beta < 1e-14 or m == STEPS
        if last or m == look:
            pairs = [eigh_tridiagonal(diagonal, beside, select="i", select_range=(k, k)) for k in (0, m - 1)]
            values = np.array([value[0] for value, _ in pairs])
            residuals = beta * np.array([abs(vector[-1, 0]) for _, vector in pairs])
            lead = int(np.argmax(np.abs(values)))
            if last or (residuals < [1e-7 if lead == 0 else 1e-3, 1e-7]).all():
                return values, float(residuals[lead])
            look += 10 + m // 10
        before, q = q, w / beta
        beside.append(beta)


def square(name: str, W: Any) -> None:
    """Refuse weights that are not square: residuals and powers need as many features out as in."""
    if np.ndim(W) != 2 or np.shape(W)[0] != np.shape(W)[1]:
        raise ValueError(
            f"`{name}` must be square, since a residual adds features to themselves; got shape {np.shape(W)}."
        )


def _checked(adjacency: Any) -> sparse.csr_array:
    _check_sparse(adjacency)
    if np.iscomplexobj(adjacency):
        raise ValueError("`adjacency` is complex and would lose its imaginary part.")
    A = sparse.csr_array(adjacency, dtype=float)
    shape: Any = A.shape
    if len(shape) != 2 or shape[0] != shape[1] or not shape[0]:
        raise ValueError(f"`adjacency` must be a square matrix; got shape {shape}.")
    A.sum_duplicates()
    checks.finite("adjacency", A.data)
    if A.nnz and A.data.min() < 0:
        raise ValueError(f"`adjacency` must not have negative weights; got {A.data.min():g}.")
    if abs(A - A.T).max() > 1e-12 * abs(A).max():
        raise ValueError("`adjacency` must be symmetric; use A + A.T to forget directions.")
    return A


def _check_places(arrays: Any) -> None:
    """Refuse places in a stored matrix that are no whole numbers, which would be rounded."""
    for name in PLACES:
        if name in arrays and arrays[name].dtype.kind not in "iu":
            raise ValueError(f"{name!r} has entries of the type {arrays[name].dtype}, which name no places")


def _check_sparse(adjacency: Any) -> None:
    """Refuse places outside of a sparse matrix, which its routines would read and write without looking."""
    if not sparse.issparse(adjacency):
        return
    memory.ask(64 * (max(adjacency.shape) + adjacency.nnz), "`adjacency`", "take a smaller graph")
    try:
        if hasattr(adjacency, "check_format"):
            adjacency.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(f"`adjacency` is no sparse matrix: {error}.") from None


def _matrix(edges: np.ndarray, n: int | None) -> sparse.csr_array:
    if edges.ndim != 2 or edges.shape[1] not in (2, 3) or not len(edges):
        raise ValueError(f"`edges` must have rows `u, v` or `u, v, weight`; got shape {edges.shape}.")
    checks.finite("edges", edges)
    ends = np.sort(edges[:, :2].astype(np.int64), axis=1)
    if (ends != np.sort(edges[:, :2], axis=1)).any() or ends.min() < 0:
        raise ValueError("`edges` must name vertices by whole numbers from 0.")
    n = int(ends.max()) + 1 if n is None else n
    if ends.max() >= n:
        raise ValueError(f"`edges` has vertex {ends.max()}, and there are only `n` = {n}, counted from 0.")
    weights = edges[:, 2].astype(float) if edges.shape[1] == 3 else np.ones(len(edges))
    key, first, place = np.unique(ends[:, 0] * n + ends[:, 1], return_index=True, return_inverse=True)
    (u, v), w = np.divmod(key, n), weights[first]
    if len(other := np.flatnonzero(weights != w[place])):
        i = int(other[0])
        raise ValueError(
            f"`edges` has one edge with the weights {w[place[i]]:g} and {weights[i]:g}, in rows {first[place[i]] + 1} and "
            f"{i + 1}."
        )
    apart = u != v
    both = np.concatenate([u, v[apart]]), np.concatenate([v, u[apart]])
    return sparse.csr_array((np.concatenate([w, w[apart]]), both), (n, n))


def _lines(path: Path) -> tuple[np.ndarray, int]:
    """The edges of a file of lines, with vertices by any names, and how many vertices there are."""
    comma = path.suffix == ".csv"
    lines = files.text(path, files.CELL).splitlines()
    rows = [line.replace(",", " ").split() if comma else line.split() for line in lines]
    rows = [row for row in rows if row and not row[0].startswith(("#", "%"))]
    wrong = next((i for i, row in enumerate(rows, 1) if len(row) != len(rows[0]) or len(row) not in (2, 3)), None)
    if wrong is not None:
        raise ValueError(f"edge {wrong} reads {' '.join(rows[wrong - 1])!r}, not `u v` or `u v weight` like the first")
    if not rows:
        raise ValueError("it has no edges")
    _check_heading(rows)
    table = np.array(rows)
    names, ends = np.unique(table[:, :2], return_inverse=True)
    weights = table[:, 2:].astype(float)
    return np.concatenate([ends.reshape(-1, 2), weights], axis=1), len(names)


def _check_heading(rows: list[list[str]]) -> None:
    """Refuse a first line that names columns, which would be an edge."""
    (u, v), others = rows[0][:2], {name for row in rows[1:] for name in row[:2]}
    numbered = bool(others) and all(name.isdigit() for name in others) and not (u.isdigit() or v.isdigit())
    if not {u, v} & others and (numbered or {u.lower(), v.lower()} <= set(HEADINGS)):
        raise ValueError(f"the first line reads {u!r} and {v!r}, which no other line names: leave names of columns out")
