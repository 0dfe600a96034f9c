#include "data/record_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "data/utf8.hpp"
#include "experiment/difficulty.hpp"

namespace wmtp {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr size_t piece_bytes = 1 << 20;
constexpr int max_depth = 32;
constexpr size_t shown_characters = 40;

/// Column (from 1, in characters) of the byte at `offset`.
int64_t column_of(std::string_view line, size_t offset) {
  const std::string_view before = line.substr(0, std::min(offset, line.size()));
  return 1 + std::count_if(before.begin(), before.end(), [](char byte) { return (byte & 0xc0) != 0x80; });
}

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

struct TooDeep {};
struct Doubled {
  std::string key;
};

/// Refuses what nlohmann would take without a word: nesting without end, and a key that stands twice.
Json parse_object(std::string_view line) {
  std::set<std::string> keys;
  return Json::parse(line.begin(), line.end(), [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > max_depth) throw TooDeep();
    if (event == Json::parse_event_t::key && depth == 1 && !keys.insert(value.get<std::string>()).second)
      throw Doubled{value.get<std::string>()};
    return true;
  });
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
      return parse_object(line_);
    } catch (const Json::parse_error& error) {
      const bool cut = error.byte > line_.size();
      refuse(error.byte > 0 ? error.byte - 1 : 0,
             cut ? "the line ends in the middle of a record: it was cut, or a newline stands in a text"
                 : "not JSON: " + reason_of(error));
    } catch (const TooDeep&) {
      refuse(0, "nested deeper than " + std::to_string(max_depth) + " levels, wanted a record");
    } catch (const Doubled& doubled) {
      refuse_field(doubled.key, "found twice", "it once");
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

/// Calls take(number, line, bytes): a line with more bytes than max_line_bytes comes empty. Until `take` returns false.
void for_each_line(const fs::path& file, const std::function<bool(int64_t, std::string_view, size_t)>& take) {
  std::ifstream in(file, std::ios::binary);
  std::vector<char> piece(piece_bytes);
  std::string line;
  size_t bytes = 0;
  int64_t number = 1;
  while (in) {
    in.read(piece.data(), piece_bytes);
    std::string_view rest(piece.data(), static_cast<size_t>(in.gcount()));
    while (!rest.empty()) {
      const size_t newline = rest.find('\n'), part = std::min(newline, rest.size());
      bytes += part;
      if (bytes <= max_line_bytes)
        line.append(rest.substr(0, part));
      else
        std::string().swap(line);
      rest.remove_prefix(std::min(part + 1, rest.size()));
      if (newline == std::string_view::npos) break;
      if (!take(number++, line, bytes)) return;
      line.clear();
      bytes = 0;
    }
  }
  if (!in.eof() || in.bad())
    throw Error(ExitStatus::data, "cannot read " + file.string() + ": " + std::strerror(errno));
  if (bytes > 0) take(number, line, bytes);
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

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
                     const std::function<void(const Record&)>& take) {
  for_each_line(file, [&](int64_t number, std::string_view line, size_t bytes) {
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
