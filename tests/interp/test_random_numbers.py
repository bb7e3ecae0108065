"""Device random numbers against a scalar Philox4x32-10 and its published vectors."""

import pytest
import tilelang.language as T

from tilegen.interp import UnsupportedError, run


def philox(counter, key):
    """One block, with Python integers."""
    x, y, z, w = counter
    a, b = key
    for _ in range(10):
        first, second = 0xD2511F53 * x, 0xCD9E8D57 * z
        x, y, z, w = second >> 32 ^ y ^ a, second % 2**32, first >> 32 ^ w ^ b, first % 2**32
        a, b = (a + 0x9E3779B9) % 2**32, (b + 0xBB67AE85) % 2**32
    return x, y, z, w


def drawn(seed, sequence, position):
    block = position // 4
    counter = (block % 2**32, block >> 32, sequence % 2**32, sequence >> 32)
    return philox(counter, (seed % 2**32, seed >> 32))[position % 4]


def test_the_scalar_generator_gives_the_published_vectors():
    assert philox((0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    ones = 2**32 - 1
    assert philox((ones,) * 4, (ones,) * 2) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)


def by_thread(generator="curandStatePhilox4_32_10_t", every=1):
    @T.prim_func
    def main(A: T.Tensor((2, 32, 6), "uint32"), B: T.Tensor((2, 32), "float32")):
        with T.Kernel(2, threads=32) as b:
            tx = T.get_thread_binding()
            T.rng_init(42, b * 32 + tx, 3, generator=generator)
            for i in T.serial(6):
                if tx % every == 0:
                    A[b, tx, i] = T.rng_rand()
                else:
                    A[b, tx, i] = T.uint32(0)
            B[b, tx] = T.rng_rand_float()

    return main


@pytest.mark.parametrize("every", [1, 2])
def test_each_thread_draws_its_own_sequence_where_it_is_active(clean, every):
    outputs = clean(by_thread(every=every), {})
    for block in range(2):
        for thread in range(32):
            active = thread % every == 0
            expected = [drawn(42, block * 32 + thread, 3 + i) if active else 0 for i in range(6)]
            assert outputs["A"][block, thread].tolist() == expected
            last = drawn(42, block * 32 + thread, 9 if active else 3)
            assert outputs["B"][block, thread] == pytest.approx((last + 0.5) / 2**32, rel=1e-6)


def in_parallel(threads):
    @T.prim_func
    def main(A: T.Tensor((300,), "uint32")):
        with T.Kernel(3, threads=threads) as b:
            T.rng_init(7, 0, b * 128)
            for i in T.Parallel(128):
                if b * 128 + i < 300:
                    A[b * 128 + i] = T.rng_rand()

    return main


def test_the_iterations_of_one_thread_draw_in_order(clean):
    assert clean(in_parallel(1), {}).tolist() == [drawn(7, 0, i) for i in range(300)]


def test_draws_in_a_parallel_loop_of_several_threads_are_refused():
    with pytest.raises(UnsupportedError, match="which of them draws"):
        run(in_parallel(32), {})


def test_other_generators_are_refused():
    with pytest.raises(UnsupportedError, match="curandStateXORWOW_t"):
        run(by_thread("curandStateXORWOW_t"), {})
