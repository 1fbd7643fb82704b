"""Records of dlprof's own collector, written as an export in the layout of Nsight Systems."""
