// JSONL that nobody vouches for, one object a line, of which a few fields are wanted. Every mistake is told with file,
// line and column or field. Memory is bound by one line without its unwanted fields. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace wmtp {

/// The tests of one programming problem may have tens of megabytes.
constexpr size_t longest_jsonl_line = size_t{256} << 20;
constexpr size_t most_jsonl_mistakes = 20;

class JsonlMistakes {
 public:
  explicit JsonlMistakes(std::filesystem::path file) : file_(std::move(file)) {}
  /// At a line (from 1) and "solutions[2].language", say; "" for the line itself. Raises when there are enough.
  void add(int64_t line, const std::string& field, const std::string& message);
  /// "line 7, column 12: message"
  void add_at(int64_t line, size_t column, const std::string& message);
  int64_t count() const { return static_cast<int64_t>(told_.size()); }
  /// Error(data) with all of them, if there is one.
  void raise() const;

 private:
  void tell(std::string mistake);
  std::filesystem::path file_;
  std::vector<std::string> told_;
};

/// Calls take(line, object) for each line but blank ones. An object has only those of its fields that are in `wanted`.
/// Lines with mistakes are added and passed over. Error(data) when `file` is no regular file or of another
/// format (foreign_formats.hpp); Error(storage) when it cannot be read. How far it is can be seen where that takes
/// long.
void for_each_json_line(const std::filesystem::path& file, const std::vector<std::string>& wanted,
                        JsonlMistakes& mistakes,
                        const std::function<void(int64_t line, const nlohmann::json& object)>& take);

/// What a message says of a value: `the number 3`, `the text "abc"`, `a list`.
std::string found_text(const nlohmann::json& value);

}  // namespace wmtp
