"""Make data: mine hard questions, synthesise and verify episodes, build sets and benchmarks."""
