#include "core/records/record_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "base/work_progress.hpp"
#include "core/documents/foreign_formats.hpp"
#include "core/documents/json_lines.hpp"
#include "core/experiment/difficulty.hpp"

namespace wmtp {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr size_t shown_characters = 40;

/// A number of 60 bits that a text leads to: two of a million texts meet once in two million.
int64_t number_of(std::string_view text) { return std::stoll(sha256_of(text).substr(0, 15), nullptr, 16); }

std::string found(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_null()) return "null";
  const std::string text = value.dump(-1, ' ', true);
  return (value.is_string()   ? "the text "
          : value.is_number() ? "the number "
                              : "") +
         (text.size() > shown_characters ? text.substr(0, shown_characters) + "…" : text);
}

/// "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error …" -> "syntax error …"
std::string reason_of(const Json::parse_error& error) {
  const std::string text = error.what();
  const size_t at = text.find(": ");
  return at == std::string::npos ? text : text.substr(at + 2);
}

class LineReader {
 public:
  LineReader(const fs::path& file, int64_t number, std::string_view line, const RecordNeeds& needs,
             RecordMistakes& mistakes)
      : file_(file), number_(number), line_(line), needs_(needs), mistakes_(mistakes) {}

  /// Nothing after a mistake was added.
  std::optional<Record> record() {
    if (const size_t valid = valid_utf8(line_); valid < line_.size()) {
      refuse(valid, printed("not UTF-8: found the byte 0x%02x", static_cast<unsigned char>(line_[valid])));
      return std::nullopt;
    }
    const auto json = parsed();
    if (!json) return std::nullopt;
    if (!json->is_object()) {
      refuse(0, "found " + found(*json) + ", wanted an object with instruction and output");
      return std::nullopt;
    }
    fill(*json);
    return good_ ? std::optional(std::move(record_)) : std::nullopt;
  }

 private:
  void refuse(size_t offset, const std::string& what) {
    mistakes_.add(file_, number_, std::to_string(column_of(line_, offset)) + ": " + what);
    good_ = false;
  }
  void refuse_field(const std::string& field, const std::string& was, const std::string& wanted) {
    mistakes_.add(file_, number_, " " + field + ": " + was + ", wanted " + wanted);
    good_ = false;
  }

  std::optional<Json> parsed() {
    try {
      return parse_json_line(line_, [](const std::string&) { return true; });
    } catch (const Json::parse_error& error) {
      const bool cut = error.byte > line_.size();
      refuse(error.byte > 0 ? error.byte - 1 : 0,
             cut ? "the line ends in the middle of a record: it was cut, or a newline stands in a text"
                 : "not JSON: " + reason_of(error));
    } catch (const Json::out_of_range&) {
      refuse(0, "found a number that is out of range, wanted numbers below 1.8e308");
    } catch (const TooDeep&) {
      refuse(0, "nested deeper than " + std::to_string(deepest_json) + " levels, wanted a record");
    } catch (const DoubledField& doubled) {
      refuse_field(doubled.name, "found twice", "it once");
    }
    return std::nullopt;
  }

  void fill(const Json& json) {
    record_.instruction = text(json, "instruction", true);
    record_.input = text(json, "input", false);
    record_.output = text(json, "output", true);
    if (const Json* id = field(json, "task_id")) {
      if (id->is_string() || id->is_number_integer())
        record_.problem = number_of(id->is_string() ? id->get<std::string>() : id->dump());
      else
        refuse_field("task_id", "found " + found(*id), "a text or a whole number");
    }
    record_.identity = record_.problem >= 0 ? record_.problem : number_of(line_);
    if (const Json* correct = field(json, "is_correct")) {
      if (correct->is_boolean())
        record_.correct = correct->get<bool>();
      else
        refuse_field("is_correct", "found " + found(*correct), "true or false, without quotes");
    } else if (needs_.correct) {
      refuse_field("is_correct", "missing", "true or false: data.select = \"correct\" needs it");
    }
    if (needs_.difficulty) fill_difficulty(json);
  }

  void fill_difficulty(const Json& json) {
    const std::string wanted = "a whole number from 0 to " + with_thousands(max_difficulty);
    const Json* metadata = field(json, "metadata");
    if (metadata && !metadata->is_object()) {
      refuse_field("metadata", "found " + found(*metadata), "an object with difficulty");
      return;
    }
    const Json* difficulty = metadata ? field(*metadata, "difficulty") : nullptr;
    if (!difficulty) {
      refuse_field("metadata.difficulty", "missing", wanted + ": [data.difficulty] needs it");
    } else if (!difficulty->is_number_integer() || *difficulty < 0 || *difficulty > max_difficulty) {
      refuse_field("metadata.difficulty", "found " + found(*difficulty), wanted);
    } else {
      record_.difficulty = difficulty->get<int64_t>();
    }
  }

  std::string text(const Json& json, const char* name, bool required) {
    const Json* value = field(json, name);
    if (value && value->is_string()) return value->get<std::string>();
    if (value)
      refuse_field(name, "found " + found(*value), "a text");
    else if (required)
      refuse_field(name, "missing", "a text");
    return {};
  }

  /// null is as good as not there.
  static const Json* field(const Json& json, const char* name) {
    const auto at = json.find(name);
    return at == json.end() || at->is_null() ? nullptr : &*at;
  }

  const fs::path& file_;
  int64_t number_;
  std::string_view line_;
  const RecordNeeds& needs_;
  RecordMistakes& mistakes_;
  Record record_;
  bool good_ = true;
};

}  // namespace

void RecordMistakes::add(const fs::path& file, int64_t line, const std::string& what) {
  if (!full()) told_.push_back(file.string() + ":" + std::to_string(line) + ":" + what);
}

void RecordMistakes::raise() const {
  if (told_.empty()) return;
  std::string text = "the records have mistakes:";
  for (const std::string& one : told_) text += "\n  " + one;
  if (full()) text += "\n  (no more are told)";
  throw Error(ExitStatus::data, text);
}

void for_each_record(const fs::path& file, const RecordNeeds& needs, RecordMistakes& mistakes,
                     const std::function<void(const Record&)>& take, WorkProgress* progress) {
  refuse_foreign_format(file, FileContent::json_lines);
  const bool read = for_each_line(file, max_line_bytes, [&](int64_t number, std::string_view line, size_t bytes) {
    if (progress) progress->done(static_cast<int64_t>(bytes) + 1);
    if (bytes > max_line_bytes) {
      mistakes.add(file, number,
                   " a line of " + human_bytes(static_cast<int64_t>(bytes)) + ", wanted at most " +
                       human_bytes(static_cast<int64_t>(max_line_bytes)) +
                       ": one record a line, each ended by a newline");
    } else if (!is_blank(line)) {
      if (const auto record = LineReader(file, number, line, needs, mistakes).record()) take(*record);
    }
    return !mistakes.full();
  });
  if (!read) throw Error(ExitStatus::data, "cannot read " + file.string() + ": " + std::strerror(errno));
}

std::string prompt_of(const Record& record, const std::string& prompt_template) {
  const bool input = !record.input.empty();
  if (prompt_template == "plain") {
    std::string text;
    for (const std::string* part : {&record.instruction, &record.input})
      if (!part->empty()) text.append(*part).append("\n");
    return text.empty() ? "\n" : text;
  }
  return std::string("Below is an instruction that describes a task") +
         (input ? ", paired with an input that provides further context" : "") +
         ". Write a response that appropriately completes the request.\n\n### Instruction:\n" + record.instruction +
         (input ? "\n\n### Input:\n" + record.input : "") + "\n\n### Response:";
}

}  // namespace wmtp
