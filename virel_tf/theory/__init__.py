"""The paper's theorems and examples as numbers and pictures, on small problems.

They are solved exactly; reference implementations of what training estimates.
"""
