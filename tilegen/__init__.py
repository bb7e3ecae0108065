"""tilegen: kernel specs to proved, readable TileLang kernels with golden tests."""

__version__ = "0.1.0"
