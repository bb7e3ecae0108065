"""Why the tiles of a plan are as they are: rows of a warp group, registers of a thread, shared memory of a block.

Everything is worked out from the plan and the numbers of the chip; nothing is known of any one kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilegen.check.rules.gemm import path_of
from tilegen.check.rules.shared_memory import shared_arithmetic
from tilegen.expr import to_text
from tilegen.lowering.instruction import GemmPath
from tilegen.lowering.partition import POLICIES, WARP_M, Policy
from tilegen.lowering.registers import register_budget
from tilegen.plan.model import Buffer, Copy, Gemm, KernelPlan, Scope
from tilegen.plan.overhead import beside_product
from tilegen.plan.registers import row_demands
from tilegen.plan.resources import REGISTER_BYTES, fragment_registers, shared_bytes

if TYPE_CHECKING:
    from tilegen.plan.model import TilePlan

MOST_GROUPS = 4


@dataclass(frozen=True)
class Product:
    """The accumulators of one product, which may be cut between warp groups: ``rows`` x ``columns`` together."""

    gemms: tuple[Gemm, ...]
    rows: int
    columns: int
    itemsize: int
    rows_key: str

    @property
    def names(self) -> str:
        return ", ".join(f"`{name}`" for name in dict.fromkeys(gemm.acc for gemm in self.gemms))

    def registers(self, threads: int) -> int:
        """32-bit registers of a thread, where so many threads hold the accumulators."""
        return -(-self.rows * self.columns * self.itemsize // (REGISTER_BYTES * threads))


def argument(plan: TilePlan) -> list[str]:
    """Lines of text, the kernels of the plan one after the other; only what is a number in the plan takes part."""
    lines: list[str] = []
    for kernel in plan.kernels:
        product = largest_product(plan, kernel)
        if product is not None:
            lines += [*_rows(plan, product), *_registers(plan, kernel, product), *_side_by_side(plan, kernel, product)]
        lines += _row_pass(plan, kernel)
        if isinstance(shared_bytes(kernel, plan.target), int) and kernel.scope(Scope.SHARED):
            lines += shared_arithmetic(plan, kernel, {}).split("\n")
    return lines


def largest_product(plan: TilePlan, kernel: KernelPlan) -> Product | None:
    """The product whose accumulators take the most registers; None where there is none of known size."""
    found: dict[tuple[str, bool], list[Gemm]] = {}
    for gemm, _ in kernel.find(Gemm):
        if isinstance(gemm.m, int) and isinstance(gemm.n, int):
            found.setdefault((gemm.b, gemm.transpose_b), []).append(gemm)
    products = [_product(plan, kernel, gemms) for gemms in found.values()]
    return max(products, key=lambda product: product.rows * product.columns, default=None)


def _product(plan: TilePlan, kernel: KernelPlan, gemms: list[Gemm]) -> Product:
    parts = list({gemm.acc: gemm for gemm in gemms}.values())
    first = parts[0]
    key = first.decided_by[0] if first.decided_by else "tile"
    # Parts as high as the tile itself stand side by side; lower ones lie one below the other.
    beside = plan.tiles.get(key.removeprefix("tile.")) in (first.m, None)
    rows = first.m if beside else sum(part.m for part in parts)
    columns = sum(part.n for part in parts) if beside else first.n
    return Product(tuple(parts), rows, columns, kernel.buffer(first.acc).itemsize, key)


def _rows(plan: TilePlan, product: Product) -> Iterator[str]:
    gemm = product.gemms[0]
    shape = plan.target.instruction("wgmma", gemm.dtype)
    key = product.rows_key.removeprefix("tile.")
    if shape is None or gemm.m < shape.m:
        why = f"less than the {shape.m} of a warp group, so the product is left to mma.sync" if shape else "mma.sync"
        yield f"{key} = {product.rows} rows: {why}; a warp owns at least {WARP_M}"
    elif product.rows == shape.m:
        yield f"{key} = {product.rows} rows: the least that a warp group may own, for WGMMA has {shape.m} rows"
    else:
        yield f"{key} = {product.rows} rows: {product.rows / shape.m:g} times the {shape.m} rows of a WGMMA"


def _registers(plan: TilePlan, kernel: KernelPlan, product: Product) -> Iterator[str]:
    """What a thread holds, were the product shared by one warp group, by two and so on, up to the number that is used."""
    threads = kernel.launch.threads
    group = plan.target.launch.warp_group_size or 128
    if not isinstance(threads, int) or plan.target.kind != "cuda":
        return
    used = max(1, threads // group)
    accum = product.gemms[0].accum
    tile = f"{product.rows} x {product.columns} {accum}"
    enough = None
    for groups in range(1, max(used, MOST_GROUPS) + 1):
        held = product.registers(groups * group)
        beside = _overhead(plan, product, groups * group)
        if beside is None:
            continue
        specialised = kernel.launch.producer_threads != 0
        budget = register_budget(plan.target, groups * group, warp_specialised=specialised)
        fits = held + beside <= budget
        yield (
            f"{product.names}: {tile} over {groups * group} threads is {held} registers a thread; with about {beside} "
            f"for the rest, {held + beside} of {budget}: {'fits' if fits else 'spills'}"
        )
        enough = groups if fits and enough is None else enough
        if enough is not None and groups >= used:
            break
    if enough is not None:
        yield f"hence {_count(enough, 'warp group')} at least; threads = {threads} are {_count(used, 'warp group')}"


def _overhead(plan: TilePlan, product: Product, threads: int) -> int | None:
    """Registers beside the accumulators, were the product shared by so many threads; None where they cannot share it."""
    gemm = product.gemms[0]
    if not isinstance(gemm.k, int):
        return None
    found = path_of(plan, gemm)(product.rows, product.columns, gemm.k, threads)
    if not isinstance(found, GemmPath):
        return None
    return beside_product(found, gemm.dtype, product.rows, product.columns, gemm.k)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _side_by_side(plan: TilePlan, kernel: KernelPlan, product: Product) -> Iterator[str]:
    """How the warps stand: along the rows, or beside each other along the columns."""
    gemm = product.gemms[0]
    shape, threads = plan.target.instruction("wgmma", gemm.dtype), kernel.launch.threads
    if shape is not None and isinstance(threads, int) and gemm.m >= shape.m:
        groups, high = threads // plan.target.launch.warp_group_size, product.rows // shape.m
        if groups > high:
            policy = f": policy {plan.tiles['policy']}" if "policy" in plan.tiles else ""
            yield (
                f"{product.rows} rows are {_count(high, 'warp group')} high, so the {groups} stand side by side along the "
                f"columns{policy}"
            )
    if len(product.gemms) > 1:
        held = [f"`{part.acc}` {part.m} x {part.n}" for part in product.gemms]
        how = "side by side" if product.rows == gemm.m else "one below the other"
        yield f"the warp groups hold it in parts, {how}: {', '.join(held)}"
        return
    sizes = (gemm.m, gemm.n, gemm.k, kernel.launch.threads if gemm.threads is None else gemm.threads)
    if not all(isinstance(size, int) for size in sizes):
        return
    path = path_of(plan, gemm)(*sizes)
    if not isinstance(path, GemmPath):
        return
    rows, columns = path.partition.m, path.partition.n
    along = "one above the other" if columns == 1 else f"{_count(columns, 'column')} of warps beside each other"
    alike = [policy for policy in POLICIES if policy != gemm.policy and _partition(plan, gemm, policy, sizes) == path]
    same = f"; {' and '.join(alike)} would come to the same" if alike else ""
    yield (
        f"{gemm.policy}: {rows} x {columns} warps, {along}, each with {gemm.m // rows} x {gemm.n // columns} of "
        f"`{gemm.acc}`{same}"
    )


def _partition(plan: TilePlan, gemm: Gemm, policy: Policy, sizes: tuple[int, ...]) -> object:
    return path_of(plan, replace(gemm, policy=policy))(*sizes)


def _row_pass(plan: TilePlan, kernel: KernelPlan) -> Iterator[str]:
    """Rows in registers: lanes, rows of a pass, and what a thread holds."""
    threads = kernel.launch.threads
    for rows in kernel.row_passes:
        if not all(isinstance(size, int) for size in (rows.lanes, rows.block_rows, threads)):
            continue
        yield (
            f"{rows.lanes} lanes of {plan.target.copy.vector_bytes} bytes share a row: {threads} threads are "
            f"{threads // max(rows.lanes, 1)} rows a pass, a block has {rows.block_rows}"
        )
        held = [buffer for buffer in kernel.scope(Scope.FRAGMENT) if _loaded(kernel, buffer)]
        blocks = plan.tiles.get("blocks_per_sm", 1)
        for buffer, demand in ((buffer, demand) for buffer in held for demand in row_demands(plan, kernel)):
            shape = " x ".join(to_text(extent) for extent in buffer.shape)
            yield (
                f"`{buffer.name}`: {shape} {buffer.dtype} over {threads} threads is "
                f"{to_text(fragment_registers(kernel, buffer))} registers a thread, beside about {demand.beside}, of "
                f"{demand.available} with {_count(blocks, 'block')} an SM"
            )


def _loaded(kernel: KernelPlan, buffer: Buffer) -> bool:
    return any(
        copy.dst == buffer.name and kernel.buffer(copy.src).scope is Scope.GLOBAL for copy, _ in kernel.find(Copy)
    )
