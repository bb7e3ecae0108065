"""Kernels built from macros, continued: regions, classes, Python-time recursion and choices, and code by thread index."""

import tilelang.language as T


@T.macro
def rotate(left, right, cos, sin, first):
    """Rotary embedding of two halves of one tile, given as regions."""
    rows, half = 16, 32
    for i, j in T.Parallel(rows, half):
        x = left[i, j]
        y = right[i, j]
        left[i, j] = x * cos[first + i, j] - y * sin[first + i, j]
        right[i, j] = y * cos[first + i, j] + x * sin[first + i, j]


def rotary(fault=False):
    M = T.dynamic("M")

    @T.prim_func
    def main(
        X: T.Tensor((M, 64), "float16"),
        cos: T.Tensor((M, 32), "float32"),
        sin: T.Tensor((M, 32), "float32"),
        Y: T.Tensor((M, 64), "float16"),
    ):
        with T.Kernel(T.ceildiv(M, 16), threads=128) as b:
            left = T.alloc_fragment((16, 32), "float32")
            right = T.alloc_fragment((16, 32), "float32")
            T.copy(X[b * 16 : b * 16 + 16, 0:32], left)
            T.copy(X[b * 16 : b * 16 + 16, 32:64], right)
            if fault:
                rotate(right, left, cos, sin, b * 16)
            else:
                rotate(left, right, cos, sin, b * 16)
            T.copy(left, Y[b * 16 : b * 16 + 16, 0:32])
            T.copy(right, Y[b * 16 : b * 16 + 16, 32:64])

    return main


class RunningMoments:
    """Mean and sum of squared distances of each row, block by block (Chan, Golub and LeVeque's update)."""

    def __init__(self, rows, columns, stale=False):
        self.rows, self.columns, self.stale = rows, columns, stale
        self.mean = T.alloc_fragment((rows,), "float32")
        self.spread = T.alloc_fragment((rows,), "float32")

    @T.inline
    def start(self):
        T.clear(self.mean)
        T.clear(self.spread)

    @T.inline
    def update(self, tile, seen):
        part = T.alloc_fragment((self.rows,), "float32")
        square = T.alloc_fragment((self.rows, self.columns), "float32")
        spread = T.alloc_fragment((self.rows,), "float32")
        T.reduce_sum(tile, part, dim=1)
        for i in T.Parallel(self.rows):
            part[i] /= self.columns
        for i, j in T.Parallel(self.rows, self.columns):
            square[i, j] = (tile[i, j] - part[i]) * (tile[i, j] - part[i])
        T.reduce_sum(square, spread, dim=1)
        for i in T.Parallel(self.rows):
            distance = part[i] - self.mean[i]
            share = T.cast(self.columns, "float32") / (seen + self.columns)
            self.spread[i] += spread[i]
            if not self.stale:
                self.spread[i] += distance * distance * share * seen
            self.mean[i] += distance * share


def moments(fault=False):
    """State and macros in a class."""

    @T.prim_func
    def main(X: T.Tensor((32, 192), "float32"), mean: T.Tensor((32,), "float32"), variance: T.Tensor((32,), "float32")):
        with T.Kernel(2, threads=128) as b:
            tile = T.alloc_fragment((16, 64), "float32")
            running = RunningMoments(16, 64, stale=fault)
            running.start()
            for p in T.serial(3):
                T.copy(X[b * 16, p * 64], tile)
                running.update(tile, p * 64)
            for i in T.Parallel(16):
                mean[b * 16 + i] = running.mean[i]
                variance[b * 16 + i] = running.spread[i] / 192

    return main


@T.macro
def fold(tile, width, skip):
    """Halve the live part of a shared tile until one element is left; the recursion is Python's."""
    if width > 1:
        tx = T.get_thread_binding()
        if tx < width // 2:
            tile[tx] += tile[tx + width // 2]
        if width != skip:
            T.sync_threads()
        fold(tile, width // 2, skip)


def folded_sum(fault=False):
    """A macro that calls itself; the fault leaves out one barrier, which matters where the compiler adds none."""
    configuration = {"tl.disable_thread_storage_sync": True}

    @T.prim_func
    def main(X: T.Tensor((8, 128), "float32"), Y: T.Tensor((8,), "float32")):
        with T.Kernel(8, threads=128) as row:
            tile = T.alloc_shared((128,), "float32")
            tx = T.get_thread_binding()
            tile[tx] = X[row, tx]
            T.sync_threads()
            fold(tile, 128, 64 if fault else 0)
            if tx == 0:
                Y[row] = tile[0]

    return main.with_attr("tilelang_pass_configs", configuration)


@T.macro
def butterfly(value, distance):
    """The sum over a warp; each level adds a shuffle."""
    if distance == 0:
        return value
    return butterfly(value + T.shfl_xor(value, distance), distance // 2)


@T.macro
def block_sum(value, partial, threads, result: T.Ref):
    """Warp sums through shared memory; every thread gets the total."""
    tx = T.get_thread_binding()
    total = butterfly(value, 16)
    if tx % 32 == 0:
        partial[tx // 32] = total
    T.sync_threads()
    result = 0.0
    for w in T.serial(threads // 32):
        result += partial[w]
    T.sync_threads()


def centred(fault=False):
    """X - mean(X) with thread code: a macro for the block that calls one for the warp."""
    rows = 4 if fault else 8

    @T.prim_func
    def main(X: T.Tensor((8, 128), "float32"), Y: T.Tensor((8, 128), "float32")):
        with T.Kernel(rows, threads=128) as row:
            partial = T.alloc_shared((4,), "float32")
            tx = T.get_thread_binding()
            total = T.alloc_var("float32")
            block_sum(X[row, tx], partial, 128, total)
            Y[row, tx] = X[row, tx] - total / 128

    return main


@T.macro
def store(tile, target, row, *, scale=None, relu=False):
    """An epilogue whose branches Python chooses."""
    rows, columns = tile.shape
    if scale is not None:
        for i, j in T.Parallel(rows, columns):
            tile[i, j] *= scale[j]
    if relu:
        for i, j in T.Parallel(rows, columns):
            tile[i, j] = T.max(tile[i, j], 0)
    T.copy(tile, target[row, 0])


def optional_steps(fault=False):
    """Keyword arguments and choices that vanish from the kernel."""

    @T.prim_func
    def main(
        X: T.Tensor((32, 64), "float16"),
        scale: T.Tensor((64,), "float32"),
        plain: T.Tensor((32, 64), "float16"),
        scaled: T.Tensor((32, 64), "float16"),
        both: T.Tensor((32, 64), "float16"),
    ):
        with T.Kernel(2, threads=128) as b:
            tile = T.alloc_fragment((16, 64), "float32")
            T.copy(X[b * 16, 0], tile)
            store(tile, plain, b * 16)
            store(tile, scaled, b * 16, scale=scale)
            if not fault:
                T.copy(X[b * 16, 0], tile)
            store(tile, both, b * 16, scale=scale, relu=True)

    return main


@T.macro
def page_of(table, sequence, block):
    return table[sequence, block]


@T.macro
def load_page(cache, table, sequence, block, tile):
    page = page_of(table, sequence, block)
    T.copy(cache[page, 0, 0], tile)


def paged_sum(fault=False):
    """A macro's value indexes the copy of another macro."""
    batch, blocks, pages = T.dynamic("batch, blocks, pages")

    @T.prim_func
    def main(
        cache: T.Tensor((pages, 16, 32), "float16"),
        table: T.Tensor((batch, blocks), "int32"),
        Y: T.Tensor((batch, 32), "float32"),
    ):
        with T.Kernel(batch, threads=64) as b:
            tile = T.alloc_shared((16, 32), "float16")
            acc = T.alloc_fragment((16, 32), "float32")
            total = T.alloc_fragment((32,), "float32")
            T.clear(acc)
            for n in T.serial(blocks):
                load_page(cache, table, b, 0 if fault else n, tile)
                for i, j in T.Parallel(16, 32):
                    acc[i, j] += tile[i, j]
            T.reduce_sum(acc, total, dim=0)
            T.copy(total, Y[b, 0:32])

    return main
