// CMake requires a source file; only the precompiled header of this library is used.
