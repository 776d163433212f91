"""Networks of the critics and the policy."""
