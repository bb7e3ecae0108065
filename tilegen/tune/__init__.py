"""Searches the tilings that the checker proves for the fastest on this GPU, and writes them into the lock of a spec."""
