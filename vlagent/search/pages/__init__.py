"""Web pages: fetch, render, extract; guarded against addresses that are nobody's business."""
