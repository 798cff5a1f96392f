"""Pages: checks, words and charts of a run or of trials, and the printers that show them."""
