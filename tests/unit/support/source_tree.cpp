#include "support/source_tree.hpp"

std::filesystem::path source_tree() { return WMTP_SOURCE_TREE; }
