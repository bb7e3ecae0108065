"""What a change of specs means: summaries of kernels, their comparison, and the forms in which people read it."""
