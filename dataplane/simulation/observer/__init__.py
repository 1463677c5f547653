"""What somebody outside a simulated engine may see: `/metrics` text and dated lines of its log.

A dialect writes them as a real engine would: ours, vLLM of several releases, SGLang, llama.cpp.
Nothing here knows a fault, and nothing that is exported says more than the engine could know.
"""
