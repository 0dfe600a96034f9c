// The document of an experiment: its file, merged with the files that it extends, then changed by --set.
//
// `extends = "base.toml"`: tables are merged, any other value of the file replaces that of its base. Paths in a base
// are made absolute, because they are relative to the base. Every node keeps its place, so that errors name the file
// that stated a value.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiment/load/source_texts.hpp"
#include "experiment/toml/diagnostics.hpp"
#include "experiment/toml/toml_node.hpp"

namespace wmtp {

struct Document {
  int source = 0;            ///< of the file itself in the Diagnostics
  std::optional<Node> root;  ///< nullopt if an error was added that leaves no document
};

/// Errors of all these files and of `overrides` are added: syntax, a base that cannot be read, files that extend each
/// other in a cycle. Throws the errors of read_source for `file` itself.
Document read_document(const std::filesystem::path& file, const std::vector<std::string>& overrides, SourceTexts& texts,
                       Diagnostics& diagnostics);

/// Makes the relative paths in the keys of `table` absolute, which lie in `folder`. `name`: the table's in the schema.
void make_paths_absolute(Node& table, const std::string& name, const std::filesystem::path& folder);

}  // namespace wmtp
