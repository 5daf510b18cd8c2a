"""The third-derivative criterion for attention, written out: an independent road to its margin."""

import numpy as np


def third(x: np.ndarray, beta: float) -> np.ndarray:
    """`f'''` of `e^{β (cos x - 1)} sin x` by hand."""
    c, s = np.cos(x), np.sin(x)
    polynomial = (
        -c - 3 * beta * (c**2 - s**2) + 3 * beta**2 * s**2 * c - beta * s * (-s - 3 * beta * s * c + beta**2 * s**3)
    )
    return np.exp(beta * (c - 1)) * polynomial


def tau(beta: float) -> float:
    """Where `f' = 0`, `cos τ = (sqrt(4β² + 1) - 1) / (2β)`."""
    return float(np.arccos((np.sqrt(4 * beta**2 + 1) - 1) / (2 * beta))) if beta else np.pi / 2


def margin(beta: float, points: int) -> float:
    """`4 (1 + τ/2π) - τ ∫(f''')_+`, by the trapezoid rule on the circle; here `f'(0) = 1`."""
    x = 2 * np.pi * np.arange(points) / points
    rise = 2 * np.pi * np.maximum(third(x, beta), 0.0).mean()
    return 4 * (1 + tau(beta) / (2 * np.pi)) - tau(beta) * rise
