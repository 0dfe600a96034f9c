#include "core/documents/jsonl_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "base/work_progress.hpp"
#include "core/documents/foreign_formats.hpp"
#include "core/documents/json_lines.hpp"

namespace wmtp {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr size_t start_bytes = 1 << 20;
constexpr size_t longest_quote = 40;

void refuse_a_list(const fs::path& file) {
  std::string start(start_bytes, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(start.data(), start_bytes);
  start.resize(static_cast<size_t>(in.gcount()));
  const size_t first = start.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && start[first] == '[')
    throw Error(ExitStatus::data,
                file.string() + ": found a list, wanted one object on each line; convert it first (jq -c '.[]')");
}

}  // namespace

void JsonlMistakes::add(std::string mistake) {
  mistakes_.push_back(std::move(mistake));
  if (mistakes_.size() == most_jsonl_mistakes) {
    mistakes_.push_back("the rest of the file was not read");
    raise();
  }
}

void JsonlMistakes::add(int64_t line, const std::string& field, const std::string& message) {
  add("line " + std::to_string(line) + ": " + (field.empty() ? "" : field + ": ") + message);
}

void JsonlMistakes::add_at(int64_t line, size_t column, const std::string& message) {
  add("line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + message);
}

void JsonlMistakes::raise() const {
  if (mistakes_.empty()) return;
  std::string text;
  for (const std::string& one : mistakes_) text += (text.empty() ? "" : "\n") + file_.string() + ": " + one;
  throw Error(ExitStatus::data, text);
}

void for_each_json_line(const fs::path& file, const std::vector<std::string>& wanted, JsonlMistakes& mistakes,
                        const std::function<void(int64_t, const Json&)>& take) {
  refuse_foreign_format(file, FileContent::json_lines);
  refuse_a_list(file);
  const auto wants = [&](const std::string& field) {
    return std::find(wanted.begin(), wanted.end(), field) != wanted.end();
  };
  const auto take_line = [&](int64_t number, std::string_view line, size_t bytes) {
    if (bytes > longest_jsonl_line) {
      return mistakes.add(number, "",
                          "found a line of " + human_bytes(int64_t(bytes)) + ", wanted at most " +
                              human_bytes(int64_t(longest_jsonl_line)));
    }
    if (is_blank(line)) return;
    if (const size_t good = valid_utf8(line); good < line.size()) {
      return mistakes.add_at(number, column_of(line, good),
                             printed("found byte 0x%02x, wanted UTF-8", static_cast<unsigned char>(line[good])));
    }
    Json object;
    try {
      object = parse_json_line(line, wants);
    } catch (const TooDeep&) {
      return mistakes.add(number, "", "nested more than " + std::to_string(deepest_json) + " deep");
    } catch (const DoubledField& doubled) {
      return mistakes.add(number, doubled.name, "found twice, wanted once");
    } catch (const Json::parse_error& failure) {
      const bool cut = failure.byte > line.size();
      return mistakes.add_at(number, column_of(line, failure.byte - 1),
                             cut ? "the line ends in the middle of its object, wanted a complete one"
                                 : "found no JSON from here on, wanted an object on each line");
    } catch (const Json::exception&) {
      return mistakes.add(number, "", "found a number that is out of range");
    }
    if (!object.is_object()) return mistakes.add(number, "", "found " + found_text(object) + ", wanted an object");
    take(number, object);
  };
  WorkProgress progress("reading " + file.filename().string(), int64_t(fs::file_size(file)), WorkProgress::Unit::bytes);
  const bool read = for_each_line(file, longest_jsonl_line, [&](int64_t number, std::string_view line, size_t bytes) {
    progress.done(int64_t(bytes) + 1);
    take_line(number, line, bytes);
    return true;
  });
  if (!read) throw Error(ExitStatus::storage, "cannot read " + file.string() + ": " + std::strerror(errno));
}

std::string found_text(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number()) return "the number " + value.dump();
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  const auto& text = value.get_ref<const std::string&>();
  const std::string shown = text.substr(0, valid_utf8(std::string_view(text).substr(0, longest_quote)));
  return "the text " + Json(shown + (shown.size() < text.size() ? "..." : "")).dump();
}

}  // namespace wmtp
