"""`virel-tf theory`: the paper's theorems and examples as numbers and pictures."""
