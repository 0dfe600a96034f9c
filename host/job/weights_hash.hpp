// What identifies weights in the identity of an experiment and in caches: their content, wherever they lie. Digests of
// files are remembered in the cache folder (io/file_digests.hpp).
#pragma once

#include <filesystem>
#include <string>

namespace wmtp {

/// SHA-256 of `weights`, a file or a folder: of the manifest, if there is one, because it contains checksums of all
/// data; otherwise of the names and contents of the folder's files. Of a file with its ShapeStatement, if there is one.
std::string weights_content_hash(const std::filesystem::path& weights, const std::filesystem::path& database);

}  // namespace wmtp
