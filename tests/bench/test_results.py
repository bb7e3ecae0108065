"""What is printed, saved and drawn of a benchmark."""

import io
import json
import math

import pytest

from tilegen.bench.plot import draw, varying_dim
from tilegen.bench.result import Result, ResultError, Row, Timing, best_ratio, geometric_mean, read_result
from tilegen.bench.rounds import Spread
from tilegen.bench.table import markdown, show, tables

MACHINE = {
    "card": "NVIDIA H200",
    "driver": "580",
    "cuda": "13.0",
    "torch": "2.11",
    "tilelang": "0.1.15",
    "date": "today",
}


def timing(us, ratio=None):
    return Timing(Spread(us * 1e-6, us * 0.9e-6, us * 1.1e-6), ratio and Spread(ratio, ratio * 0.99, ratio * 1.01))


def row(C, ours, torch, copy, **more):
    times = {"ours": timing(ours), "torch": timing(torch, torch / ours), "copy": timing(copy, copy / ours)}
    row = dict(dims={"M": 4096, "C": C}, dtype="float16", flops=1e9, bytes_moved=4e8, roof_s=80e-6, bound="memory")
    return Row(
        **{**row, "tiles": {"schedule": "one_pass", "BLOCK_M": 8}, "error": 0.5, "times": {"cold": times}, **more}
    )


def result(*rows):
    rows = rows or (row(64, 100, 200, 98), row(128, 100, 400, 102))
    return Result("rms", "specs/rms.toml", "ab" * 32, MACHINE, rows, ("torch", "copy"), ("copy",))


def test_the_table_has_time_rate_roof_and_a_ratio_to_each_peer():
    (table,) = tables(result())
    first = dict(zip(table.columns, table.rows[0], strict=True))
    assert "M" not in first, "a dim that does not vary stands once, above the table"
    assert (first["C"], first["us"], first["rate"], first["of roof"]) == ("64", "100.0", "4.00 TB/s", "0.800")
    assert (first["to torch"], first["to copy"], first["tile"]) == ("2.000", "0.980", "one_pass 8")


def test_the_summary_gives_the_geometric_mean_and_the_lowest_ratio():
    (table,) = tables(result())
    assert f"float16, to torch: geometric mean {math.sqrt(8):.3f}, 2 of 2 at or above 1, lowest 2.000" in table.summary
    assert "2 of 2 rows checked against the reference before timing" in table.summary


def test_the_best_peer_is_the_fastest_that_does_the_same_work():
    found = result()
    assert best_ratio(found, found.rows[0], "cold") == pytest.approx(2.0), "the copy does not count: it is a yardstick"


def test_a_wrong_row_is_named_and_not_timed():
    (table,) = tables(result(row(64, 100, 200, 98), row(128, 1, 1, 1, error=3.0, times={})))
    assert "WRONG" in table.rows[1]
    assert "error 3 tolerances" in table.rows[1]
    assert any("1 WRONG" in line for line in table.summary)


def test_a_result_without_times_is_the_roofline():
    (table,) = tables(result(row(64, 1, 1, 1, times={}), row(128, 1, 1, 1, times={})))
    assert table.columns == ("C", "dtype", "GFLOP", "MB", "least, us", "bound by")
    assert table.rows[0] == ("64", "float16", "1", "400", "80.00", "memory")


def test_a_saved_result_is_read_back_as_it_was(tmp_path):
    path = tmp_path / "r.json"
    path.write_text(result().to_json())
    assert read_result(path) == result()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": 99, "rows": []}'])
def test_a_file_that_is_no_result_is_refused(tmp_path, text):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(ResultError, match=r"r\.json"):
        read_result(path)


def test_markdown_names_card_versions_and_date():
    text = markdown(result())
    assert "NVIDIA H200, driver 580, cuda 13.0, torch 2.11, tilelang 0.1.15; today" in text
    assert "| 64 | float16 | 100.0 |" in text


def test_the_terminal_table_holds_the_same_cells():
    stream = io.StringIO()
    show(result(), stream)
    assert "4.00 TB/s" in stream.getvalue()
    assert "M = 4096" in stream.getvalue()


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_a_plot_draws_a_line_for_each_call_and_the_roof(tmp_path, suffix):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"plot{suffix}"
    draw(result(), path)
    assert path.stat().st_size > 5000
    if suffix == ".svg":
        text = path.read_text()
        assert all(f"<!-- {word} -->" in text for word in ("roof", "rms", "torch", "copy", "TB/s"))


def test_a_plot_is_over_the_dim_with_the_most_sizes_and_needs_one_that_varies(tmp_path):
    assert varying_dim(result().rows) == "C"
    with pytest.raises(ValueError, match="needs a dim that varies"):
        draw(result(row(64, 1, 1, 1)), tmp_path / "p.svg")


def test_a_geometric_mean_of_nothing_is_refused():
    assert geometric_mean([2, 8]) == pytest.approx(4)
    with pytest.raises(ValueError, match="no values"):
        geometric_mean([])


def test_json_holds_every_sample_statistic():
    entry = json.loads(result().to_json())["rows"][0]["times"]["cold"]["torch"]
    assert entry["seconds"] == {
        "median": pytest.approx(200e-6),
        "low": pytest.approx(180e-6),
        "high": pytest.approx(220e-6),
    }
