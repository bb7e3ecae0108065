"""The tile plans of MLA decode: what they take, how keys are divided, and what the rules say of broken ones."""

from dataclasses import replace
from pathlib import Path

import pytest

from tilegen.check.checker import check
from tilegen.check.rule import find_rule
from tilegen.emit.artefacts import compile_key
from tilegen.emit.rendering import factory_parameters, render
from tilegen.families.attention.decode import Decode
from tilegen.families.attention.delayed import delayed
from tilegen.families.attention.plain import plain
from tilegen.plan.build import dtype_bindings
from tilegen.plan.instances import instances
from tilegen.plan.model import Elementwise, Fill, Gemm, Loop, LoopKind, Scope
from tilegen.plan.resources import fragment_registers, shared_bytes, static_shared_bytes
from tilegen.spec import Severity, load, load_bytes
from tilegen.targets import target

SPEC = Path(__file__).parent.parent.parent / "specs" / "mla_decode.toml"
DIMS = {"B": 64, "H": 128, "S": 4096, "D_nope": 512, "D_rope": 64}


@pytest.fixture(scope="module")
def spec():
    return load(SPEC)


def decode(spec, arch="sm_90a", **tiles):
    given = dict(BLOCK_H=64, BLOCK_N=64, threads=256, stages=2, policy="full_col", num_split=1, split=False)
    return Decode(spec, target(arch), dtype_bindings(spec)[0], {**given, **tiles})


def changed(*changes):
    text = SPEC.read_text()
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
        text = text.replace(old, new)
    return load_bytes(text.encode(), "mla.toml")


def found(spec, severity):
    return {entry.code for entry in check(spec).diagnostics if entry.severity is severity}


def test_plain_takes_the_shared_memory_that_was_counted_by_hand(spec):
    # Queries 64 x 576, two stages of keys 64 x 576, probabilities 64 x 64, 2 bytes each; 2 reductions of 256 floats.
    by_hand = 64 * 576 * 2 + 2 * 64 * 576 * 2 + 64 * 64 * 2 + 2 * 256 * 4
    (kernel,) = plain(decode(spec))
    assert shared_bytes(kernel, target("sm_90a")) == by_hand == 231_424
    assert by_hand + static_shared_bytes(kernel) == target("sm_90a").shared_memory.per_block == 232_448


def test_plain_of_16_heads_and_of_one_stage_take_what_was_counted_by_hand(spec):
    (narrow,) = plain(decode(spec, BLOCK_H=16, threads=128))
    assert (
        shared_bytes(narrow, target("sm_90a")) == 16 * 576 * 2 + 2 * 64 * 576 * 2 + 16 * 64 * 2 + 2 * 128 * 4 == 168_960
    )
    (ampere,) = plain(decode(spec, "sm_80", stages=1))
    assert shared_bytes(ampere, target("sm_80")) == 2 * 64 * 576 * 2 + 64 * 64 * 2 + 2 * 256 * 4 == 157_696
    assert static_shared_bytes(ampere) == 0


def test_delayed_takes_the_shared_memory_that_was_counted_by_hand(spec):
    # P has no tile of its own: it takes the place of the rotary tile of its stage. A strip of 64 x 32 for each group;
    # factors and sums, 2 x 64 floats each.
    by_hand = 3 * 64 * 576 * 2 + 2 * 64 * 32 * 2 + 2 * 2 * 64 * 4
    (kernel,) = delayed(decode(spec))
    assert shared_bytes(kernel, target("sm_90a")) == by_hand == 230_400
    assert static_shared_bytes(kernel) == 1024


def test_an_output_of_64_x_512_over_two_warp_groups_is_128_registers_a_thread(spec):
    (kernel,) = plain(decode(spec))
    assert fragment_registers(kernel, kernel.buffer("acc")) == 64 * 512 // 256 == 128
    (kernel,) = delayed(decode(spec))
    held = {name: fragment_registers(kernel, kernel.buffer(name)) for name in ("acc_left", "acc_middle", "acc_right")}
    assert held == {"acc_left": 128, "acc_middle": 64, "acc_right": 64}
    assert [kernel.buffer(name).warp_group for name in held] == [0, 1, 1]


def test_delayed_multiplies_every_column_of_keys_and_values_once_a_step(spec):
    (kernel,) = delayed(decode(spec))
    step = [(op, loops) for op, loops in kernel.find(Gemm) if any(loop.variable == "step" for loop in loops)]
    scores = [(op, loops) for op, loops in step if op.acc == "scores"]
    trips = [loops[-1].trips if loops[-1].kind is LoopKind.UNROLLED else 1 for _, loops in scores]
    assert sum(op.k * n for (op, _), n in zip(scores, trips, strict=True)) == 512 + 64
    assert sum(op.n for op, _ in step if op.acc != "scores") == 512


@pytest.mark.parametrize(
    ("schedule", "split", "kernels"),
    [
        (plain, False, ["mla_decode"]),
        (plain, True, ["mla_decode", "mla_decode_combine"]),
        (delayed, False, ["mla_decode"]),
        (delayed, "even", ["mla_decode", "mla_decode_combine"]),
        (delayed, "ragged", ["mla_decode_parts", "mla_decode", "mla_decode_combine"]),
    ],
)
def test_a_split_adds_the_combine_and_lengths_the_search_for_parts(spec, schedule, split, kernels):
    assert [kernel.name for kernel in schedule(decode(spec, num_split="auto", split=split))] == kernels


def test_only_lengths_need_a_mask_of_the_values(spec):
    for split, expected in ((False, 0), ("even", 0), ("ragged", 2)):
        attend = next(kernel for kernel in delayed(decode(spec, split=split)) if kernel.name == "mla_decode")
        tails = [op for op, _ in attend.find(Elementwise) if op.what.startswith("tail")]
        assert len(tails) == expected


def test_every_role_that_a_call_can_need_is_an_instance(spec):
    from tilegen.aot.compile import compile_keys

    source = render(spec).files["kernel.py"]
    parameters = factory_parameters(spec)
    for arch, roles in (("sm_90a", {False, True, "even", "ragged"}), ("sm_80", {False, True})):
        keys = [compile_key(instance, parameters) for instance in instances(spec, arch)]
        needed = compile_keys(source, arch, {})
        assert {key["split"] for key in needed} == roles
        assert all(key in keys for key in needed)
        assert all(key in needed for key in keys)


@pytest.mark.parametrize(
    ("batch", "heads", "keys", "splits"),
    [
        (1, 128, 8192, 64),  # 132 SMs over 2 head blocks leave 66 for 128 key blocks: 2 each, 64 splits
        (3, 128, 1000, 16),  # 22 to be had, 16 key blocks
        (64, 128, 4096, 1),
        (64, 64, 4096, 2),
        (1, 64, 1, 1),
        (1, 64, 2**20, 132),  # 16384 key blocks, 132 wanted: 125 each, and 131.07 rounded up
    ],
)
def test_the_automatic_number_of_splits_is_that_of_hand_arithmetic(spec, batch, heads, keys, splits):
    from tilegen.expr import evaluate

    expression = decode(spec, num_split="auto", split=True).splits()
    value = evaluate(expression, {"B": batch, "H": heads, "S": keys, "sm_count": 132})
    assert value == splits


def test_64_heads_run_on_delayed_where_there_is_wgmma_and_on_plain_elsewhere(spec):
    chosen = {(i.arch, i.dims["H"]): i.tiles["schedule"] for arch in ("sm_90a", "sm_80") for i in instances(spec, arch)}
    assert chosen == {
        ("sm_90a", 16): "plain",
        ("sm_90a", 64): "delayed",
        ("sm_90a", 128): "delayed",
        ("sm_80", 16): "plain",
        ("sm_80", 64): "plain",
        ("sm_80", 128): "plain",
    }


def test_every_instance_of_the_spec_fits_its_chip(spec):
    for arch in ("sm_90a", "sm_80"):
        for instance in instances(spec, arch):
            for kernel in instance.plan().kernels:
                used = shared_bytes(kernel, target(arch)) + static_shared_bytes(kernel)
                assert used <= target(arch).shared_memory.per_block


def test_the_spec_is_clean(spec):
    assert check(spec).diagnostics == ()


def test_8_heads_a_block_are_refused():
    assert "TG-D4" in found(changed(("{ use = 16, when", "{ use = 8, when")), Severity.ERROR)


def test_32_heads_a_block_are_slow_on_hopper():
    slow = changed(('[ { use = 16, when = "H < 64" }, { use = 64 } ]', "32"))
    assert found(slow, Severity.ERROR) == set()
    assert "TG-D1" in found(slow, Severity.SLOW)


def test_a_tile_of_all_heads_is_as_it_should_be_on_hopper():
    """Before, 16 heads were slow on 16 rows (TG-D1) and slow on 64 (TG-E8)."""
    for heads in (16, 32):
        few = changed(
            ("H = { values = [16, 64, 128],", f"H = {{ values = [{heads}],"),
            ('[ { use = 16, when = "H < 64" }, { use = 64 } ]', str(heads)),
        )
        assert not found(few, Severity.SLOW) & {"TG-D1", "TG-E8"}


def test_one_warp_group_for_64_x_512_is_slow():
    slow = changed(
        ('[ { use = 16, when = "H < 64" }, { use = 64 } ]', "64"),
        ('"max(128, 4 * BLOCK_H)"', "128"),
        ("[target.sm_80] ", "[target.sm_100a] "),
    )
    assert "TG-D16" in found(slow, Severity.SLOW)


def test_a_batch_past_grid_z_is_refused():
    assert "TG-A5" in found(changed(("max = 4096,", "max = 70_000,")), Severity.ERROR)


def test_two_stages_of_cp_async_over_a_run_time_trip_count_are_refused():
    assert "TG-E4" in found(changed(("{ stages = 1 }", "{ stages = 2, BLOCK_N = 32 }")), Severity.ERROR)


def test_a_third_stage_does_not_fit():
    assert "TG-B1" in found(changed(("stages = 2\n", "stages = 3\n")), Severity.ERROR)


def test_delayed_is_refused_where_its_tiles_are_not_those_it_is_written_for():
    # 16 heads get a block of 16.
    forced = ("[target.sm_90a.tile] ", '[target.sm_90a]\nschedule = "delayed"\n[target.sm_90a.tile] ')
    assert "TG-E11" in found(changed(forced), Severity.ERROR)


def without(kernel, unwanted):
    """The kernel with every operation dropped that ``unwanted`` picks."""

    def kept(body):
        return tuple(replace(op, body=kept(op.body)) if isinstance(op, Loop) else op for op in body if not unwanted(op))

    return replace(kernel, body=kept(kernel.body))


@pytest.mark.parametrize("schedule", [plain, delayed])
@pytest.mark.parametrize(
    ("rule", "unwanted"),
    [
        ("E5", lambda op: isinstance(op, Elementwise) and op.what.startswith("mask")),
        ("E6", lambda op: isinstance(op, Elementwise) and op.what.startswith("divisor")),
        ("E6", lambda op: isinstance(op, Fill) and op.buffer == "row_max"),
    ],
)
def test_a_plan_that_forgets_a_mask_or_a_guard_is_refused(spec, schedule, rule, unwanted):
    instance = next(iter(instances(spec, "sm_90a")))
    kernels = schedule(decode(spec))
    plan = replace(instance.plan(), kernels=kernels)
    assert all(obligation.claim is True for obligation in find_rule(rule).obligations(plan))
    broken = replace(plan, kernels=tuple(without(kernel, unwanted) for kernel in kernels))
    assert any(obligation.claim is not True for obligation in find_rule(rule).obligations(broken))


@pytest.mark.parametrize("ids", [(8, 9, 10, 10), (7, 9), (15, 16)])
def test_named_barriers_that_clash_are_refused(spec, ids):
    instance = next(iter(instances(spec, "sm_90a")))
    (kernel,) = delayed(decode(spec))
    plan = replace(instance.plan(), kernels=(kernel,))
    assert [obligation.claim for obligation in find_rule("E12").obligations(plan)] == [True]
    broken = replace(plan, kernels=(replace(kernel, named_barriers=ids),))
    assert [obligation.claim for obligation in find_rule("E12").obligations(broken)] == [False]


def test_the_source_allocates_every_buffer_of_the_plan(spec):
    source = render(spec).files["kernel.py"]
    for schedule, split in ((plain, True), (delayed, "ragged")):
        for kernel in schedule(decode(spec, num_split="auto", split=split)):
            for buffer in kernel.buffers:
                if buffer.scope is not Scope.GLOBAL and not buffer.by_compiler:
                    assert f"{buffer.name} = T.alloc_" in source
