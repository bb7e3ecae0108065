import subprocess
import sys

import pytest

from tilegen.targets import UnknownTargetError, names, target


def test_every_target_of_the_design_is_there():
    assert names() == ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a", "gfx942")


@pytest.mark.parametrize("name", names())
def test_every_value_has_a_source(name):
    chip = target(name)
    groups = {
        "launch": chip.launch,
        "shared_memory": chip.shared_memory,
        "registers": chip.registers,
        "copy": chip.copy,
    }
    groups |= {
        key: getattr(chip, key) for key in ("tma", "tensor_memory", "register_reallocation") if getattr(chip, key)
    }
    paths = {f"{group}.{field}" for group, value in groups.items() for field in value.__dataclass_fields__}
    for index, part in enumerate(chip.parts):
        paths |= {f"parts.{index}.{field}" for field in part.__dataclass_fields__ if field != "name"}
    paths |= {"instructions", "dtypes.operands"}
    assert {path for path in paths if not chip.sources.get(path)} == set()
    assert set(chip.sources) == paths


@pytest.mark.parametrize(
    ("name", "kib"),
    [("sm_80", 163), ("sm_86", 99), ("sm_89", 99), ("sm_90a", 227), ("sm_100a", 227), ("sm_120a", 99), ("gfx942", 64)],
)
def test_shared_memory_of_one_block(name, kib):
    assert target(name).shared_memory.per_block == kib * 1024


@pytest.mark.parametrize("name", names())
def test_limits_of_one_chip_agree_with_each_other(name):
    chip = target(name)
    memory, registers, launch = chip.shared_memory, chip.registers, chip.launch
    assert memory.per_block + memory.reserved_per_block <= memory.per_sm
    assert launch.max_threads_per_sm % launch.warp_size == 0
    assert registers.per_thread * launch.max_threads_per_sm >= registers.per_sm
    assert {operand for i in chip.instructions for operand in i.operands} == set(chip.operand_dtypes)
    assert set(chip.part.dense_flops) <= set(chip.operand_dtypes) | {"float64"}
    for layout in chip.register_reallocation.layouts if chip.register_reallocation else ():
        producers, consumers, given_up, taken = layout
        assert 128 * (producers * given_up + consumers * taken) <= chip.register_reallocation.budget


def test_tvm_target_of_each_kind():
    assert target("sm_90a").tvm_target == {"kind": "cuda", "arch": "sm_90a"}
    assert target("gfx942").tvm_target == {"kind": "hip", "mcpu": "gfx942"}


def test_targets_are_values():
    assert hash(target("sm_90a")) == hash(target("sm_90a"))
    assert target("sm_90a") != target("sm_80")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("sm_90", "sm_90a"), ("sm90a", "sm_90a"), ("sm_100", "sm_100a"), ("h100", "sm_90a"), ("mi300x", "gfx942")],
)
def test_an_unknown_name_is_answered_with_the_nearest(name, nearest):
    with pytest.raises(UnknownTargetError, match=f"unknown target '{name}'; did you mean '{nearest}'"):
        target(name)


def test_a_name_like_no_other_is_answered_with_the_list():
    with pytest.raises(UnknownTargetError, match=r"unknown target '\.\./x'; known: sm_80, sm_86"):
        target("../x")


def test_loading_a_chip_imports_nothing_heavy():
    code = (
        "import sys, tilegen.targets as t; t.target('sm_90a'); print([m for m in sys.modules if m.split('.')[0] in "
        "('torch', 'tilelang', 'tvm', 'sympy', 'z3', 'pydantic', 'numpy')])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
