"""Chips as data.

One TOML file a chip; every value in it stands beside the manual, header or source file that it was read from. Nothing
else in tilegen may carry a chip's number: a rule asks for `target("sm_90a").shared_memory.per_block`.

Loading costs about 2 ms a chip (tomllib alone) and is cached.
"""

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Part:
    """One product with this chip: what a roofline needs."""

    name: str
    sm_count: int
    dram_bytes_per_second: int
    l2_bytes: int
    dense_flops: Mapping[str, float] = field(hash=False)
    """Tensor-core operations a second by operand dtype, without sparsity. A multiply-add counts as two."""


@dataclass(frozen=True)
class Launch:
    """Limits of a launch."""

    warp_size: int
    warp_group_size: int
    """Threads that issue one warp-group instruction; 0 where the chip has none."""
    max_threads_per_block: int
    max_threads_per_sm: int
    max_blocks_per_sm: int
    max_grid: tuple[int, int, int]


@dataclass(frozen=True)
class SharedMemory:
    """Bytes."""

    per_block: int
    """Most that one block may have, static and dynamic together, after opting in."""
    static_per_block: int
    per_sm: int
    reserved_per_block: int
    """What the system keeps for each resident block, on top of the block's own."""
    allocation_unit: int
    banks: int


@dataclass(frozen=True)
class Registers:
    """32-bit registers."""

    per_sm: int
    per_block: int
    per_thread: int
    allocation_unit_per_warp: int
    partitions: int


@dataclass(frozen=True)
class CopyWidths:
    """Bytes that one thread moves with one instruction."""

    cp_async_bytes: tuple[int, ...]
    vector_bytes: int
    vector_bytes_global_only: int
    """As `vector_bytes`, for a loop that touches global memory and registers but no shared memory."""


@dataclass(frozen=True)
class Tma:
    """Limits of a tensor map."""

    max_box: int
    max_rank: int
    inner_bytes_multiple: int
    stride_bytes_multiple: int
    stride_bytes_limit: int
    max_extent: int
    smem_alignment: int
    swizzle_bytes: tuple[int, ...]


@dataclass(frozen=True)
class TensorMemory:
    """Memory of an SM beside its registers, for accumulators."""

    lanes: int
    columns: int
    cell_bytes: int


@dataclass(frozen=True)
class RegisterReallocation:
    """What `setmaxnreg` may be asked for in a warp-specialised block."""

    budget: int
    hint_range: tuple[int, int]
    layouts: tuple[tuple[int, int, int, int], ...]
    """(producer warp groups, consumer warp groups, producer registers, consumer registers)"""
    producer_threads: int
    """Threads that warp specialisation adds to the block."""


@dataclass(frozen=True)
class Instruction:
    """One shape of matrix instruction that TileLang emits for this chip."""

    name: str
    """`wgmma`, `mma.sync`, `tcgen05` or `mfma`"""
    operands: tuple[str, ...]
    accumulators: tuple[str, ...]
    m: int
    n_min: int
    n_max: int
    n_step: int
    k: int
    tn_only: bool
    """Only A not transposed and B transposed."""


@dataclass(frozen=True)
class Target:
    """One chip."""

    name: str
    kind: str
    """`cuda` or `hip`"""
    arch: str
    parts: tuple[Part, ...]
    launch: Launch
    shared_memory: SharedMemory
    registers: Registers
    copy: CopyWidths
    tma: Tma | None
    tensor_memory: TensorMemory | None
    register_reallocation: RegisterReallocation | None
    instructions: tuple[Instruction, ...]
    operand_dtypes: tuple[str, ...]
    sources: Mapping[str, str] = field(repr=False, hash=False, compare=False)
    """Where each value was read, by dotted path: `sources["shared_memory.per_block"]`."""

    def __hash__(self) -> int:
        """Of the name alone: chips are keys of caches, and two of one name are rare."""
        return hash(self.name)

    @property
    def part(self) -> Part:
        """The product that rooflines and grid checks assume unless told otherwise."""
        return self.parts[0]

    @property
    def tvm_target(self) -> dict[str, str]:
        """What `tvm.target.Target` takes."""
        return {"kind": self.kind, "arch" if self.kind == "cuda" else "mcpu": self.arch}

    def instruction(self, name: str, operand: str) -> Instruction | None:
        """The shape of instruction `name` for operands of this dtype; None where the chip has none."""
        return next((i for i in self.instructions if i.name == name and operand in i.operands), None)

    def has_instruction(self, name: str) -> bool:
        """True if the chip has matrix instructions of this name."""
        return any(i.name == name for i in self.instructions)

    def takes(self, operand: str) -> bool:
        """True if any matrix instruction takes operands of this dtype."""
        return operand in self.operand_dtypes

    def multiplies(self, operand: str, accumulator: str) -> bool:
        """True if any matrix instruction takes operands of this dtype with such an accumulator."""
        return any(operand in i.operands and accumulator in i.accumulators for i in self.instructions)


class UnknownTargetError(ValueError):
    """The name is none of `names()`. `nearest` is the target that was likely meant, by its name or by a product's."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nearest = _nearest(name)
        hint = f"; did you mean {self.nearest!r}?" if self.nearest else ";"
        super().__init__(f"unknown target {name!r}{hint} known: {', '.join(names())}")


@cache
def names() -> tuple[str, ...]:
    """The chips that there is a file for, CUDA by compute capability, then HIP."""

    def order(name: str) -> tuple[bool, int]:
        return not name.startswith("sm_"), int("".join(c for c in name if c.isdigit()))

    return tuple(sorted((path.stem for path in _FOLDER.glob("*.toml")), key=order))


@cache
def target(name: str) -> Target:
    """The chip of this name, e.g. `sm_90a`. Raises `UnknownTargetError` with the nearest name."""
    if name not in names():
        raise UnknownTargetError(name)
    return _read(tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8")))


def _nearest(name: str) -> str | None:
    spellings = {spelling: known for known in names() for spelling in (known, known.removesuffix("a"))}
    spellings |= {part.name.split(" ")[0].lower(): known for known in names() for part in target(known).parts}
    near = difflib.get_close_matches(name.lower(), spellings, n=1, cutoff=0.7)
    return spellings[near[0]] if near else None


def _read(table: dict[str, Any]) -> Target:
    sources: dict[str, str] = {}

    def section(name: str) -> dict[str, Any]:
        return _values(table[name], name, sources)

    def optional(name: str, kind: Any) -> Any:
        return kind(**section(name)) if name in table else None

    sources["instructions"] = "; ".join(dict.fromkeys(i["source"] for i in table["instruction"]))
    return Target(
        name=table["name"],
        kind=table["kind"],
        arch=table["arch"],
        parts=tuple(_part(p, f"parts.{i}", sources) for i, p in enumerate(table["part"])),
        launch=Launch(**section("launch")),
        shared_memory=SharedMemory(**section("shared_memory")),
        registers=Registers(**section("registers")),
        copy=CopyWidths(**section("copy")),
        tma=optional("tma", Tma),
        tensor_memory=optional("tensor_memory", TensorMemory),
        register_reallocation=optional("register_reallocation", RegisterReallocation),
        instructions=tuple(_instruction(i) for i in table["instruction"]),
        operand_dtypes=section("dtypes")["operands"],
        sources=MappingProxyType(sources),
    )


def _values(section: dict[str, Any], path: str, sources: dict[str, str]) -> dict[str, Any]:
    values = {}
    for key, fact in section.items():
        values[key] = _frozen(fact["value"])
        sources[f"{path}.{key}"] = fact["source"]
    return values


def _part(table: dict[str, Any], path: str, sources: dict[str, str]) -> Part:
    plain = {key: value for key, value in table.items() if isinstance(value, dict) and "source" in value}
    sources[f"{path}.dense_flops"] = table["dense_flops_source"]
    return Part(
        name=table["name"],
        dense_flops=MappingProxyType(table["dense_flops"]),
        **_values(plain, path, sources),
    )


def _instruction(row: dict[str, Any]) -> Instruction:
    n_min, n_max, n_step = row["n"]
    return Instruction(
        name=row["name"],
        operands=tuple(row["operands"]),
        accumulators=tuple(row["accumulators"]),
        m=row["m"],
        n_min=n_min,
        n_max=n_max,
        n_step=n_step,
        k=row["k"],
        tn_only=row.get("tn_only", False),
    )


def _frozen(value: Any) -> Any:
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value
