// Reads untrusted JSONL, keeping only the wanted fields. Mistakes are reported with file, line, and column or field.
// Memory is bounded by one line without its unwanted fields.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "data/text/json_lines.hpp"

namespace wmtp {

constexpr size_t max_jsonl_mistakes = 20;

class JsonlMistakes {
 public:
  explicit JsonlMistakes(std::filesystem::path file) : file_(std::move(file)) {}
  /// `line` from 1; `field` such as "solutions[2].language", or "" for the whole line. Throws at max_jsonl_mistakes.
  void add(int64_t line, const std::string& field, const std::string& message);
  void add(int64_t line, const LineMistake& mistake);
  /// A value of the wrong type, or null for a missing one.
  void add(int64_t line, const std::string& field, const Json* found, const std::string& wanted);
  void add_long_line(int64_t line, size_t bytes);
  int64_t count() const { return int64_t(mistakes_.size()); }
  /// Error(data) with all mistakes, if any.
  void raise() const;

 private:
  void add(std::string mistake);
  std::filesystem::path file_;
  std::vector<std::string> mistakes_;
};

/// Calls on_line(line, object) for each line that is not blank, with only the `wanted` fields of the object. Lines with
/// mistakes are added to `mistakes` and skipped. Error(data) if `file` is not a regular file, has another format
/// (io/file_kind.hpp), or cannot be read. Shows progress.
void for_each_json_line(const std::filesystem::path& file, const std::vector<std::string>& wanted,
                        JsonlMistakes& mistakes, const std::function<void(int64_t line, const Json& object)>& on_line);
/// The same with the text of each line.
void for_each_json_text(const std::filesystem::path& file, const std::vector<std::string>& wanted,
                        JsonlMistakes& mistakes,
                        const std::function<void(int64_t line, const Json& object, std::string_view text)>& on_line);

}  // namespace wmtp
