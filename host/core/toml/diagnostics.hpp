// Diagnostics: every mistake of an experiment, its overrides and its stages, collected and told at once.
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "core/toml/toml_node.hpp"

namespace wmtp {

class Diagnostics {
 public:
  /// A file, by the name to show. Places with the returned number point into it.
  int add_file(const std::string& name, const std::string& text);
  /// An override; `text` is "a.b=value". Places point into "--set a.b=value".
  int add_override(const std::string& text);

  /// `message` may have several lines: those after the first are shown below the caret, before the hint.
  void add(TomlPlace place, std::string message, std::string hint = "", ExitStatus status = ExitStatus::usage);

  size_t count() const { return found_.size(); }
  /// The text that places with this number point into.
  const std::string& text_of(int source) const { return sources_[static_cast<size_t>(source)].text; }

  /// Throws one Error with all mistakes in the order of their places: a file, its overrides, then its stages. The
  /// status is usage, unless every mistake is a plugin's own failure. Does nothing when there is none.
  void raise() const;

 private:
  struct Source {
    std::string label;
    std::string text;
    bool is_file = true;
  };
  struct Found {
    TomlPlace place;
    std::string message, hint;
    ExitStatus status;
  };
  std::string print(const Found& found) const;

  std::vector<Source> sources_;
  std::vector<Found> found_;
};

/// Text of a user on one line, in quotes, shortened, with nothing in it that a terminal would obey.
std::string quote(const std::string& text);
/// Foreign text on one line, with nothing in it that a terminal would obey.
std::string on_one_line(const std::string& text);

}  // namespace wmtp
