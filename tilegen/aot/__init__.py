"""Kernels compiled ahead of time: a library with cubin and host launcher for each compile key."""
