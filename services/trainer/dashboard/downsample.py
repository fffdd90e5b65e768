"""Fewer points that look the same: what browsers are sent of a long run."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def largest_triangles(x: Floats, y: Floats, most: int) -> NDArray[np.intp]:
    """Which points of a line to keep so that it looks the same: at most ``most`` indices, rising.

    Largest-Triangle-Three-Buckets (Steinarsson, "Downsampling Time Series for Visual Representation", 2013): of each
    bucket of points the one that spans the largest triangle with the point kept before and the mean of the next bucket.
    The first and the last point stay, and so do peaks. ``x`` rises; both are of shape [points] and finite.
    """
    if most < 3:
        raise ValueError(f"most = {most}: a line needs at least 3 points to be thinned to")
    count = len(x)
    if count <= most:
        return np.arange(count, dtype=np.intp)
    # Between the first and the last point lie `most - 2` buckets; the last point is a bucket of its own.
    edges = np.append(np.linspace(1, count - 1, most - 1).astype(np.intp), count)
    sizes = np.diff(edges)
    mean_x = np.add.reduceat(x, edges[:-1]) / sizes
    mean_y = np.add.reduceat(y, edges[:-1]) / sizes
    kept = np.zeros(most, dtype=np.intp)
    kept[-1] = count - 1
    before = 0
    for place in range(1, most - 1):
        start, end = edges[place - 1], edges[place]
        to_x, to_y = x[before] - mean_x[place], y[before] - mean_y[place]
        twice_area = np.abs(to_x * (y[start:end] - y[before]) - to_y * (x[start:end] - x[before]))
        before = kept[place] = start + twice_area.argmax()
    return kept


def smoothed(y: Floats, weight: float) -> Floats:
    """An exponential moving average that gives ``weight`` (0 to below 1) to what was before, without its early bias."""
    if not 0.0 <= weight < 1.0:
        raise ValueError(f"weight = {weight}: from 0, which smooths nothing, to below 1")
    if weight == 0.0:
        return y
    averages, average, total = np.empty_like(y), 0.0, 0.0
    for place, value in enumerate(y):
        average = weight * average + (1.0 - weight) * value
        total = weight * total + (1.0 - weight)
        averages[place] = average / total
    return averages
