// A library needs a source, though only its precompiled header is wanted.
