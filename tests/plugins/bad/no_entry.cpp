// no_entry: a library that is not a plugin.
#include "canary.hpp"

extern "C" __attribute__((visibility("default"))) int no_entry() { return 0; }
