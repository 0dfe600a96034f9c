// TOML text -> Node, behind limits that hold before toml++ sees a byte: its stack grows with the depth of dotted keys.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/toml/diagnostics.hpp"
#include "core/toml/toml_node.hpp"

namespace wmtp {

inline constexpr size_t max_source_bytes = 16 * 1024;
inline constexpr int max_depth = 64;  ///< parts of a dotted key, inline tables and arrays around it counted

/// The file's text, never more than the limit. Throws Error(usage) naming the file when it cannot be read or is too
/// large.
std::string read_source(const std::filesystem::path& file, const std::string& shown_as);

/// The document, or nothing after a mistake (limits, syntax) was added.
std::optional<Node> parse_source(int source, const std::string& text, Diagnostics& diagnostics);

/// Lays "a.b=value" over `root`: replaces a key or adds one. The value is TOML; a bare word such as full_shard, which
/// is none, is taken as text, because a shell eats the quotes that TOML wants.
void lay_override(Node& root, const std::string& text, Diagnostics& diagnostics);

}  // namespace wmtp
