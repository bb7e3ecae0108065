"""Lanes against loops: a random body gives the same bits in a T.Parallel nest, one numpy operation for all iterations, and in
serial loops, one iteration at a time."""

from __future__ import annotations

import random

import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import run

ROWS, COLUMNS = 6, 9


class Body:
    """A random expression over two tensors and the loop variables, built anew (from the same seed) at each trace."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, A, K, i, j):
        draw = random.Random(self.seed)
        return self._float(draw, 4, A, K, i, j)

    def _float(self, draw, depth, A, K, i, j):
        if depth == 0:
            return draw.choice(
                [lambda: A[i, j], lambda: self._element(draw, A, K, i, j), lambda: T.float32(draw.uniform(-2, 2))]
            )()
        kind = draw.randrange(9)
        x = self._float(draw, depth - 1, A, K, i, j)
        y = self._float(draw, depth - 1, A, K, i, j)
        if kind < 4:
            return (x + y, x - y, x * y, T.max(x, y))[kind]
        if kind == 4:
            return T.if_then_else(self._condition(draw, depth - 1, A, K, i, j), x, y)
        if kind == 5:
            return T.Select(self._condition(draw, depth - 1, A, K, i, j), x, -y)
        if kind == 6:
            return T.cast(self._integer(draw, depth - 1, K, i, j), "float32") + x
        if kind == 7:
            return T.cast(T.cast(x, "float16"), "float32") * y
        return T.sqrt(T.abs(x)) + T.min(x, y)

    def _element(self, draw, A, K, i, j):
        row, column = self._integer(draw, 2, K, i, j), self._integer(draw, 2, K, i, j)
        return A[row % ROWS, column % COLUMNS]

    def _integer(self, draw, depth, K, i, j):
        if depth == 0:
            return draw.choice([lambda: i, lambda: j, lambda: K[i], lambda: T.int32(draw.randint(-5, 5))])()
        x, y = self._integer(draw, depth - 1, K, i, j), self._integer(draw, depth - 1, K, i, j)
        kind = draw.randrange(8)
        if kind < 5:
            return (x + y, x - y, x * 3, x ^ y, x & 7)[kind]
        if kind == 5:
            return x // draw.randint(1, 4)
        if kind == 6:
            return x % draw.randint(2, 7)
        return T.if_then_else(x > y, x, y + 1)

    def _condition(self, draw, depth, A, K, i, j):
        kind = draw.randrange(5)
        if kind == 0:
            return i < draw.randint(0, ROWS)
        if kind == 1:
            return T.And(self._integer(draw, 1, K, i, j) > 0, A[i, j] < draw.uniform(-1, 1))
        if kind == 2:
            return T.Or(j >= draw.randint(0, COLUMNS), A[i, j] > 0)
        if kind == 3:
            return T.Not(A[i, j] == 0)
        return (i + j) % draw.randint(2, 4) == 0


def kernel(body, parallel):
    @T.prim_func
    def main(
        A: T.Tensor((ROWS, COLUMNS), "float32"), K: T.Tensor((ROWS,), "int32"), B: T.Tensor((ROWS, COLUMNS), "float32")
    ):
        with T.Kernel(1, threads=32) as _:
            if parallel:
                for i, j in T.Parallel(ROWS, COLUMNS):
                    B[i, j] = body(A, K, i, j)
            else:
                for i in T.serial(ROWS):
                    for j in T.serial(COLUMNS):
                        B[i, j] = body(A, K, i, j)

    return main


@pytest.mark.parametrize("seed", range(60))
def test_a_random_expression_is_the_same_in_lanes_and_in_loops(rng, seed):
    inputs = {
        "A": rng.standard_normal((ROWS, COLUMNS)).astype(np.float32),
        "K": rng.integers(-20, 20, ROWS).astype(np.int32),
    }
    in_lanes, in_loops = (
        run(kernel(Body(seed), parallel), inputs, diagnostics=False).outputs["B"] for parallel in (True, False)
    )
    assert np.array_equal(in_lanes, in_loops, equal_nan=True)


def branching(parallel, steps):
    """Nested branches, a variable and a loop whose trip count differs from iteration to iteration."""

    @T.prim_func
    def main(
        A: T.Tensor((ROWS, COLUMNS), "float32"), K: T.Tensor((ROWS,), "int32"), B: T.Tensor((ROWS, COLUMNS), "float32")
    ):
        with T.Kernel(1, threads=32) as _:
            if parallel:
                for i, j in T.Parallel(ROWS, COLUMNS):
                    total = T.alloc_var("float32")
                    total = A[i, j]
                    for k in T.serial(K[i] % steps):
                        if A[i, k] > 0:
                            total = total + A[i, k] * k
                            if k > j:
                                total = total - 1
                        elif k % 2 == 0:
                            total = total * 0.5
                    B[i, j] = total
            else:
                for i in T.serial(ROWS):
                    for j in T.serial(COLUMNS):
                        total = T.alloc_var("float32")
                        total = A[i, j]
                        for k in T.serial(K[i] % steps):
                            if A[i, k] > 0:
                                total = total + A[i, k] * k
                                if k > j:
                                    total = total - 1
                            elif k % 2 == 0:
                                total = total * 0.5
                        B[i, j] = total

    return main


@pytest.mark.parametrize("steps", [1, 4, COLUMNS])
def test_branches_and_trip_counts_are_the_same_in_lanes_and_in_loops(rng, steps):
    inputs = {
        "A": rng.standard_normal((ROWS, COLUMNS)).astype(np.float32),
        "K": rng.integers(0, 20, ROWS).astype(np.int32),
    }
    in_lanes, in_loops = (run(branching(parallel, steps), inputs).outputs["B"] for parallel in (True, False))
    assert np.array_equal(in_lanes, in_loops)
