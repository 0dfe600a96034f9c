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

/// An experiment that was run, as the log has it: its name in messages, and its resolved text.
struct PastExperiment {
  std::string title, toml;
};

/// Errors of all these files and of `overrides` are added: syntax, a base that cannot be read, files that extend each
/// other in a cycle. Throws the errors of read_source for `file` itself.
///
/// With `past`, the document is that experiment with the weighting of the file: [pipeline], [reference], [references]
/// and [value] are the file's, which needs no other table, and everything else of what decides how the model reads its
/// data is that of `past`; its stages, adapter and layout of ranks are left out.
Document read_document(const std::filesystem::path& file, const std::vector<std::string>& overrides, SourceTexts& texts,
                       Diagnostics& diagnostics, const PastExperiment* past = nullptr);

/// The key of a path like "references.amateur.weights", or null.
const Entry* entry_at(const Node& root, const std::string& path);

/// Makes the relative paths in the keys of `table` absolute, which lie in `folder`. `name`: the table's in the schema.
void make_paths_absolute(Node& table, const std::string& name, const std::filesystem::path& folder);

}  // namespace wmtp
