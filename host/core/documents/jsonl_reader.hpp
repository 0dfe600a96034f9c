// Untrusted JSONL, one object on each line, of which only the wanted fields are kept. Mistakes are reported with file,
// line and column or field. Memory is bounded by one line without its unwanted fields.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/documents/json_lines.hpp"

namespace wmtp {

/// Tests of a programming problem can take tens of megabytes.
constexpr size_t longest_jsonl_line = size_t{256} << 20;
constexpr size_t most_jsonl_mistakes = 20;

class JsonlMistakes {
 public:
  explicit JsonlMistakes(std::filesystem::path file) : file_(std::move(file)) {}
  /// `line` from 1; `field` such as "solutions[2].language", or "" for the whole line. Raises at most_jsonl_mistakes.
  void add(int64_t line, const std::string& field, const std::string& message);
  void add(int64_t line, const LineMistake& mistake);
  /// A value of a wrong type, or null for a missing one.
  void add(int64_t line, const std::string& field, const nlohmann::json* found, const std::string& wanted);
  int64_t count() const { return static_cast<int64_t>(mistakes_.size()); }
  /// Error(data) with all mistakes, if there are any.
  void raise() const;

 private:
  void add(std::string mistake);
  std::filesystem::path file_;
  std::vector<std::string> mistakes_;
};

/// Calls take(line, object) for each line that is not blank; an object has only its fields that are in `wanted`. Lines
/// with mistakes are added to `mistakes` and skipped. Error(data) when `file` is not a regular file or has another
/// format (foreign_formats.hpp), or cannot be read. Shows progress.
void for_each_json_line(const std::filesystem::path& file, const std::vector<std::string>& wanted,
                        JsonlMistakes& mistakes,
                        const std::function<void(int64_t line, const nlohmann::json& object)>& take);

}  // namespace wmtp
