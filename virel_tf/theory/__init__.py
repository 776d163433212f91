"""The paper's theorems and examples as numbers and pictures, on problems small enough to be solved
exactly; reference implementations of what training estimates.
"""
