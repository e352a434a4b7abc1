"""One file a verb; parse first, import heavy things after."""
