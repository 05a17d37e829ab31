"""Study files: a whole question as one value, and its answer with what was read and by which versions."""
