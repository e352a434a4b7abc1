"""veRL 0.9 runs our loop, tools, rewards and `bn_gspo` through its own registries, unforked.

`plugin` registers the advantage estimator; `agent_loop`, `dataset` and `rewards` are named in veRL's configuration
(launch/). Nothing here is imported by the rest of the package.
"""
