"""The search services over HTTP. Needs the extra `[serve]`; nothing else in the package imports this."""
