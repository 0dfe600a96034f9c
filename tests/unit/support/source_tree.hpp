// Where the tests find the files of the source tree.
#pragma once

#include <filesystem>

/// The root of the source tree. Not derived from __FILE__, because ccache may have compiled a test's object in another
/// checkout.
std::filesystem::path source_tree();
