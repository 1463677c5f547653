"""Triton kernels for GPUs. Importing them needs triton, so only the CUDA path does."""
