"""Times generated kernels beside their peers on the GPU, and says where the roof is where there is none."""
