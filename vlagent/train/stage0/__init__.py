"""Stage 0: perception and copying for a tiny model, before it can act.

Vision tower and decoder are trained side by side against one set of fixed directions of the visual-token space
(`codes`), then joined and trained together. What is learnt from is handed in as plain arrays.
"""
