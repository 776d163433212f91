"""The equations of the paper, as functions of tensors."""
