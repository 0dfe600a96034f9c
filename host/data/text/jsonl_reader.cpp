#include "data/text/jsonl_reader.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/work_progress.hpp"
#include "io/file_kind.hpp"

namespace wmtp {

namespace {

namespace fs = std::filesystem;

}  // namespace

void JsonlMistakes::add(std::string mistake) {
  mistakes_.push_back(std::move(mistake));
  if (mistakes_.size() == max_jsonl_mistakes) {
    mistakes_.push_back("the rest of the file was not read");
    raise();
  }
}

void JsonlMistakes::add(int64_t line, const std::string& field, const std::string& message) {
  add("line " + std::to_string(line) + ": " + (field.empty() ? "" : field + ": ") + message);
}

void JsonlMistakes::add(int64_t line, const LineMistake& mistake) {
  if (!mistake.column) return add(line, mistake.field, mistake.message);
  add("line " + std::to_string(line) + ", column " + std::to_string(*mistake.column) + ": " + mistake.message);
}

void JsonlMistakes::add(int64_t line, const std::string& field, const Json* found, const std::string& wanted) {
  add(line, field, (found ? "found " + found_text(*found) : "missing") + ", wanted " + wanted);
}

void JsonlMistakes::add_long_line(int64_t line, size_t bytes) {
  add(line, "",
      "found a line of " + human_bytes(int64_t(bytes)) + ", wanted at most " +
          human_bytes(int64_t(max_jsonl_line_bytes)));
}

void JsonlMistakes::raise() const {
  if (mistakes_.empty()) return;
  std::string text;
  for (const std::string& one : mistakes_) text += (text.empty() ? "" : "\n") + file_.string() + ": " + one;
  throw Error(ExitStatus::data, text);
}

void for_each_json_line(const fs::path& file, const std::vector<std::string>& wanted, JsonlMistakes& mistakes,
                        const std::function<void(int64_t, const Json&)>& on_line) {
  for_each_json_text(file, wanted, mistakes,
                     [&](int64_t line, const Json& object, std::string_view) { on_line(line, object); });
}

void for_each_json_text(const fs::path& file, const std::vector<std::string>& wanted, JsonlMistakes& mistakes,
                        const std::function<void(int64_t, const Json&, std::string_view)>& on_line) {
  check_file_kind(file, FileUse::json_lines);
  const auto wants = [&](const std::string& field) {
    return std::find(wanted.begin(), wanted.end(), field) != wanted.end();
  };
  WorkProgress progress("reading " + file.filename().string(), int64_t(fs::file_size(file)), WorkProgress::Unit::bytes);
  for_each_line(file, max_jsonl_line_bytes, [&](int64_t number, std::string_view line, size_t bytes) {
    progress.advance(int64_t(bytes) + 1);
    if (bytes > max_jsonl_line_bytes) mistakes.add_long_line(number, bytes);
    if (is_blank(line)) return true;  // also a line that is too long
    const auto parsed = parse_object(line, wants);
    if (const auto* mistake = std::get_if<LineMistake>(&parsed))
      mistakes.add(number, *mistake);
    else
      on_line(number, std::get<Json>(parsed), line);
    return true;
  });
}

}  // namespace wmtp
