"""The paper's own subject: private costs, minimised together."""
