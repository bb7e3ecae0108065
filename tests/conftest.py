"""Options of the whole suite."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--on-device",
        metavar="REPORT",
        help="Run what the interpreter's tests run on the GPU too, compare, and append the differences to this file.",
    )
