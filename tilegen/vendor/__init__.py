"""Generated kernels in other repositories: copied with a lock file, checked offline, updated by a three-way merge."""
