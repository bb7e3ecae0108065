"""What the tools' output is turned into. The texts are as ncu and compute-sanitizer print them."""

from pathlib import Path

import pytest

from tilegen.bench.profile import (
    Point,
    ProfileError,
    ncu_page,
    ncu_rows,
    points,
    sanitizer_page,
    stall_reasons,
    tensor_use,
)
from tilegen.spec import load

SPECS = Path(__file__).parent.parent.parent / "specs"
POINT = Point("gemm", "persistent", {"M": 65, "N": 1024}, "float16", None)

STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
COLUMNS = {
    "ID": ("", "0"),
    "Kernel Name": ("", "gemm_kernel(const half *)"),
    "gpu__time_duration.sum": ("ns", "12,345"),
    "launch__registers_per_thread": ("register/thread", "168"),
    "sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_active": ("%", "91.25"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "18.7"),
    STALLED.format("barrier"): ("warp", "2.50"),
    STALLED.format("long_scoreboard"): ("warp", "4.25"),
    STALLED.format("selected"): ("warp", "1.00"),
}


def quoted(cells):
    return ",".join(f'"{cell}"' for cell in cells)


NCU = f"""==PROF== Connected to process 1
tilegen: {{}} error 0.5
{quoted(COLUMNS)}
{quoted(unit for unit, _ in COLUMNS.values())}
{quoted(value for _, value in COLUMNS.values())}
==PROF== Disconnected
"""


def test_a_kernel_of_ncu_is_a_row_with_tensor_use_and_its_stall_reasons():
    (row,) = ncu_rows(NCU)
    assert tensor_use(row) == "91.2"
    assert stall_reasons(row) == {"barrier": 2.5, "long_scoreboard": 4.25}
    line = ncu_page(NCU, [POINT])[-2]
    assert line == "| gemm_kernel | 12.35 | 168 | 91.2 |  | 18.7 | long_scoreboard 4.25, barrier 2.50 |"


def test_ncu_without_a_kernel_is_an_error_that_shows_its_last_lines():
    with pytest.raises(ProfileError, match="ERR_NVGPUCTRPERM"):
        ncu_page("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", [POINT])


@pytest.mark.parametrize(
    ("tool", "summary", "found"),
    [
        ("memcheck", "========= ERROR SUMMARY: 0 errors", 0),
        ("memcheck", "========= Invalid __global__ read of size 4 bytes\n========= ERROR SUMMARY: 3 errors", 3),
        ("racecheck", "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", 0),
        ("racecheck", "========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)", 2),
    ],
)
def test_a_sanitizer_page_counts_what_it_found(tool, summary, found):
    page, count = sanitizer_page(tool, f"========= COMPUTE-SANITIZER\ntilegen: {{}} error 0.4\n{summary}\n", [POINT])
    assert count == found
    assert f"1 of 1 calls, {found} reports, 0 wrong." in page


def test_a_wrong_result_or_a_missing_call_is_not_clean():
    summary = "========= ERROR SUMMARY: 0 errors\n"
    assert sanitizer_page("memcheck", f"tilegen: {{}} error 7.0\n{summary}", [POINT])[1] == 1
    assert sanitizer_page("memcheck", summary, [POINT])[1] == 1


def test_a_sanitizer_without_a_summary_is_an_error():
    with pytest.raises(ProfileError, match="gave no summary"):
        sanitizer_page("memcheck", "Segmentation fault", [POINT])


def test_every_schedule_of_a_kernel_is_called_those_of_other_chips_with_their_tiles():
    found = {point.schedule: point for point in points(load(SPECS / "gemm_relu.toml"), "sm_90a", ["float16"])}
    assert set(found) == {"skinny", "stream_k", "persistent", "plain"}
    assert found["persistent"].tiles is None
    assert found["plain"].tiles["schedule"] == "plain"
