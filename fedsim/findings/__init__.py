"""What a run, a sweep or a comparison shows: facts with their tests, in words. Nothing here draws."""
