from tilegen.lowering.pipeline import (
    PipelinePath,
    Schedule,
    double_buffer,
    pipeline_path,
    planned_schedule,
    trip_count_ok,
)
from tilegen.lowering.tma import tma_copy
from tilegen.targets import target


def loads(chip, *strides):
    return [tma_copy(128, 64, 2, target(chip).tma, "pipelined_load", row_stride=stride) for stride in strides]


def path(chip, threads, stages, *strides):
    return pipeline_path(target(chip), threads, stages, loads(chip, *strides))


def test_hopper_adds_a_producer_warp_group():
    assert path("sm_90a", 256, 3, 4096, 4096) == PipelinePath(True, 384, (24, 240), 3)


def test_three_consumer_groups_get_less_and_four_get_nothing():
    assert path("sm_90a", 384, 3, 4096, 4096) == PipelinePath(True, 512, (24, 160), 3)
    assert path("sm_90a", 512, 3, 4096, 4096) == PipelinePath(True, 640, None, 3)


def test_one_load_that_falls_back_doubles_the_block_and_loses_the_registers():
    assert path("sm_90a", 256, 3, 4096, 1001) == PipelinePath(True, 512, None, 3)


def test_no_load_for_tma_means_no_warp_specialisation():
    assert path("sm_90a", 256, 3, 1001, 1001) == PipelinePath(False, 256, None, 3)


def test_stages_decide():
    assert path("sm_90a", 128, 1, 4096).warp_specialised
    assert path("sm_90a", 128, 0, 4096) == PipelinePath(False, 128, None, 1)


def test_other_chips_pipeline_without_producers():
    assert path("sm_80", 128, 3, 4096) == PipelinePath(False, 128, None, 3)
    assert path("gfx942", 256, 3, 4096) == PipelinePath(False, 256, None, 1)


def test_a_partial_consumer_group_still_reallocates():
    assert path("sm_90a", 64, 2, 4096).reallocated == (24, 240)


def test_a_gemm_issues_its_copies_first():
    assert planned_schedule(3, {0: 2, 1: 2}, 3) == Schedule((0, 1, 2), (0, 0, 2))
    assert planned_schedule(3, {0: 2, 1: 2}, 1) == Schedule((1, 2, 0), (0, 0, 1))


def test_attention_issues_each_copy_behind_its_last_reader():
    # copy K, copy V, scores, softmax, values
    assert planned_schedule(5, {0: 2, 1: 4}, 2) == Schedule((1, 4, 0, 2, 3), (0, 0, 2, 2, 2))


def test_a_run_time_trip_count_leaves_at_most_one_iteration_over():
    gemm, attention = {0: 2, 1: 2}, {0: 2, 1: 4}
    assert trip_count_ok(planned_schedule(3, gemm, 2), static=False, cp_async=True)
    assert not trip_count_ok(planned_schedule(3, gemm, 3), static=False, cp_async=True)
    assert not trip_count_ok(planned_schedule(5, attention, 2), static=False, cp_async=True)
    assert trip_count_ok(planned_schedule(5, attention, 2), static=True, cp_async=True)
    assert trip_count_ok(planned_schedule(5, attention, 2), static=False, cp_async=False)


def test_a_double_buffer_takes_any_trip_count():
    schedule = double_buffer(5, [0, 3])
    assert schedule == Schedule((0, 2, 3, 1, 4), (0, 1, 1, 0, 1))
    assert trip_count_ok(schedule, static=False, cp_async=True)
