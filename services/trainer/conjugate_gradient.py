"""Conjugate gradient for (A + λI) x = b, where A is known by its products with vectors only."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_SOLVED = 1e-8
"""Relative residual below which further iterations would only move rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """What so many iterations came to."""

    x: Tensor
    image: Tensor
    """A x, without λ."""
    residual: float
    """|b − (A + λI) x| / |b|; 0 where b is 0."""


def conjugate_gradient(multiply: Callable[[Tensor], Tensor], b: Tensor, damping: float, iterations: int) -> Solution:
    """Solve from x = 0 with at most ``iterations`` products. ``multiply`` is A, symmetric and positive semidefinite.

    Stops early where nothing is left, or where rounding, or a singular A, leaves no curvature along the direction.
    """
    x, image = torch.zeros_like(b), torch.zeros_like(b)
    residual, direction = b.clone(), b.clone()
    start = squared = _dot(b, b)
    for _ in range(iterations):
        if squared <= _SOLVED**2 * start:
            break
        product = multiply(direction)
        curvature = _dot(direction, product) + damping * _dot(direction, direction)
        if not curvature > 0:
            break
        length = squared / curvature
        x += length * direction
        image += length * product
        residual -= length * (product + damping * direction)
        before, squared = squared, _dot(residual, residual)
        direction = residual + squared / before * direction
    return Solution(x, image, (squared / start) ** 0.5 if start else 0.0)


def _dot(one: Tensor, other: Tensor) -> float:
    """In float64: a million products of float32 would lose what the step length is made of."""
    return float(torch.dot(one.double(), other.double()))
