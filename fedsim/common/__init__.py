"""What all rooms use: keyed draws, errors, progress, memory, files."""
