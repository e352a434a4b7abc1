"""What the agent can do, one file a tool."""
