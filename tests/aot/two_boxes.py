"""A kernel that writes one tensor through two boxes of different widths, so that it has two tensor maps of it."""

import tilelang.language as T


def two_boxes():
    @T.prim_func
    def main(x: T.Tensor((128, 128), "float16"), y: T.Tensor((128, 128), "float16")):
        with T.Kernel(1, threads=128):
            wide = T.alloc_shared((64, 64), "float16")
            narrow = T.alloc_shared((64, 32), "float16")
            T.copy(x[0:64, 0:64], wide)
            T.copy(wide, y[0:64, 0:64])
            T.copy(x[64:128, 0:32], narrow)
            T.copy(narrow, y[64:128, 0:32])

    return main
