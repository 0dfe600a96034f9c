// Diagnostics: collects all errors of an experiment, its overrides and its stages, and reports them together.
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "experiment/toml/toml_node.hpp"

namespace wmtp {

class Diagnostics {
 public:
  /// Adds a file under its printed name; returns its source number.
  int add_file(const std::string& name, const std::string& text);
  /// Adds an override, "a.b=value"; its columns count from the start of "--set a.b=value".
  int add_override(const std::string& text);

  /// Lines of `message` after the first are printed below the caret, before the hint.
  void add(TomlPosition position, std::string message, std::string hint = "", ExitStatus status = ExitStatus::usage);

  size_t count() const { return found_.size(); }
  /// "base.toml:12", or "command line" for an override.
  std::string origin_text(TomlPosition position) const;
  bool is_override(TomlPosition position) const { return !sources_[size_t(position.source)].is_file; }
  const std::string& source_text(int source) const { return sources_[size_t(source)].text; }

  /// Throws one Error with all errors in source order: a file, its overrides, then its stages. Its status is plugin if
  /// every error has that status, else usage. Does nothing if there are no errors.
  void raise() const;

 private:
  struct Source {
    std::string label;
    std::string text;
    bool is_file = true;
  };
  struct Found {
    TomlPosition position;
    std::string message, hint;
    ExitStatus status;
  };
  std::string print(const Found& found) const;

  std::vector<Source> sources_;
  std::vector<Found> found_;
};

/// Untrusted text in quotes, on one line, cut at 60 characters; control characters are replaced by '?'.
std::string quote(const std::string& text);
/// Untrusted text on one line; control characters are replaced by '?'.
std::string on_one_line(const std::string& text);

}  // namespace wmtp
