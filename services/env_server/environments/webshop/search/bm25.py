"""BM25 to the last bit as Lucene 9 computes it: float32, quantised lengths, without the factor k1 + 1.

A term adds ``w - w / d`` to the score of a document. The weight ``w`` belongs to the term: its inverse document
frequency times how often the query has it. The divisor ``d = 1 + tf / (k1 * (1 - b + b * length / average))`` belongs
to the posting. Sums are taken in double precision, where sums of float32 lose nothing, and rounded to float32 once.
"""

import math

import numpy as np
from numpy.typing import NDArray

K1 = np.float32(0.9)
B = np.float32(0.4)
_EXACT_LENGTHS = 24
_KEPT_BITS = 4


def quantised(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Document lengths as Lucene's one-byte norms keep them: exact below 24, above with their four highest bits."""
    beyond = np.maximum(lengths - _EXACT_LENGTHS, 0)
    bits = np.frexp(beyond.astype(np.float64))[1]  # of the binary number; exact below 2^53
    dropped = np.maximum(bits - _KEPT_BITS, 0)
    return np.where(lengths < _EXACT_LENGTHS, lengths, ((beyond >> dropped) << dropped) + _EXACT_LENGTHS)


def divisors(
    frequencies: NDArray[np.int64], lengths: NDArray[np.int64], average_length: np.float32
) -> NDArray[np.float32]:
    """``d`` of postings with these term frequencies in documents of these (quantised) lengths.

    Well above 1 for documents up to 100,000 times longer than the average, so that every match scores above 0.
    """
    one = np.float32(1)
    inverse = one / (K1 * ((one - B) + B * lengths.astype(np.float32) / average_length))
    return one + frequencies.astype(np.float32) * inverse


def inverse_document_frequency(document_count: int, document_frequency: int) -> np.float32:
    """The weight of a term that ``document_frequency`` of ``document_count`` documents hold."""
    return np.float32(math.log(1 + (document_count - document_frequency + 0.5) / (document_frequency + 0.5)))
