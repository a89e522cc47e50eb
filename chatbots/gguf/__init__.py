"""GGUF files, and llama.cpp's server that computes them inside this process."""
