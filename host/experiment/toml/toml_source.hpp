// Parses TOML text into Nodes; checks size, encoding and nesting depth before passing the text to toml++.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "experiment/toml/diagnostics.hpp"
#include "experiment/toml/toml_node.hpp"

namespace wmtp {

inline constexpr size_t max_source_bytes = 16 * 1024;

/// The file's text. Error(usage) with the file's name if it cannot be read or is larger than max_source_bytes.
std::string read_source(const std::filesystem::path& file, const std::string& shown_as);

/// The document; nullopt if an error was added (invalid UTF-8, NUL, keys nested too deep, syntax).
std::optional<Node> parse_source(int source, const std::string& text, Diagnostics& diagnostics);

/// "a.b", of "a.b=value".
std::string overridden_key(const std::string& text);

/// Applies "a.b=value" to `root`: replaces or adds a key. The value is TOML. A bare word such as full_shard is taken as
/// text, because a shell removes the quotes that TOML requires.
void apply_override(Node& root, const std::string& text, Diagnostics& diagnostics);

}  // namespace wmtp
