#include "data/records/record_file.hpp"

#include <algorithm>
#include <string_view>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "base/work_progress.hpp"
#include "data/records/record_format.hpp"
#include "data/text/json_lines.hpp"
#include "data/text/jsonl_reader.hpp"
#include "experiment/difficulty.hpp"
#include "io/file_kind.hpp"

namespace wmtp {

namespace {

namespace fs = std::filesystem;

/// A 60-bit hash: among a million texts, the chance of any collision is about one in two million.
int64_t hash60(std::string_view text) { return std::stoll(sha256_hex(text).substr(0, 15), nullptr, 16); }

/// What a record asks, without fields that its format does not read and without weights, so that the same question has
/// the same identity however its line is written; all of it, if it asks nothing.
std::string question_of(const Record& record) {
  Json question = Json::array({record.instruction, record.input, Json(record.tools)});
  for (size_t i = 0; i < record.messages.size(); ++i) {
    if (i > 0 && i >= record.prompt_messages && record.messages[i].at("role") == "assistant") break;
    Json message = record.messages[i];
    message.erase("weight");
    message.erase("weights");
    question.push_back(std::move(message));
  }
  if (record.instruction.empty() && record.input.empty()) question.push_back(record.output);  // of a chat: ""
  return question.dump();
}

class LineReader {
 public:
  LineReader(const fs::path& file, int64_t number, std::string_view line, const RecordNeeds& needs,
             RecordMistakes& mistakes)
      : file_(file), number_(number), line_(line), needs_(needs), mistakes_(mistakes) {}

  void read(const std::string& format, const std::function<void(const Record&)>& on_record) {
    const auto parsed = parse_object(line_, [](const std::string&) { return true; });
    if (const auto* mistake = std::get_if<LineMistake>(&parsed)) return add(*mistake);
    fill(std::get<Json>(parsed), format);
    const RecordFields::Refuse refuse = [this](const std::string& field, const auto* found, const std::string& wanted) {
      const Json shown = found ? Json(*found) : Json();
      refuse_field(field, found ? &shown : nullptr, wanted);
    };
    try {
      const OrderedJson ordered = ordered_object(line_);
      RecordFields(format, ordered, refuse, needs_.weights).read(record_, [&] {
        if (!good_) return;
        if (record_.question < 0) record_.question = hash60(question_of(record_));  // once: a pair has one question
        if (record_.identity < 0) record_.identity = record_.question;
        on_record(record_);
      });
    } catch (const LineMistake& mistake) {
      add(mistake);
    }
  }

 private:
  void add(const LineMistake& mistake) {
    const std::string place = mistake.column          ? std::to_string(*mistake.column) + ":"
                              : mistake.field.empty() ? ""
                                                      : " " + mistake.field + ":";
    mistakes_.add(file_, number_, place + " " + mistake.message);
  }

  /// `found` is null for a missing field.
  void refuse_field(const std::string& field, const Json* found, const std::string& wanted) {
    mistakes_.add(file_, number_,
                  " " + field + ": " + (found ? "found " + found_text(*found) : "missing") + ", wanted " + wanted);
    good_ = false;
  }

  /// The fields of every format.
  void fill(const Json& json, const std::string& format) {
    const bool is_preference = format == "preferences";
    if (const Json* id = find_field(json, "task_id")) {
      if (id->is_string() || id->is_number_integer())
        record_.problem = hash60(id->is_string() ? id->get<std::string>() : id->dump());
      else
        refuse_field("task_id", id, "a string or an integer");
    }
    record_.identity = record_.problem;
    if (is_preference && record_.problem < 0) record_.problem = hash60(line_);
    const Json* correct = is_preference ? nullptr : find_field(json, "is_correct");
    if (correct && correct->is_boolean())
      record_.correct = correct->get<bool>();
    else if (correct)
      refuse_field("is_correct", correct, "true or false, without quotes");
    else if (needs_.correct && !is_preference)
      refuse_field("is_correct", nullptr, "true or false: data.select = \"correct\" needs it");
    if (needs_.difficulty) fill_difficulty(json);
  }

  void fill_difficulty(const Json& json) {
    const std::string wanted = "an integer from 0 to " + with_thousands(max_difficulty);
    const Json* metadata = find_field(json, "metadata");
    if (metadata && !metadata->is_object()) {
      refuse_field("metadata", metadata, "an object with difficulty");
      return;
    }
    const Json* difficulty = metadata ? find_field(*metadata, "difficulty") : nullptr;
    if (!difficulty) {
      refuse_field("metadata.difficulty", nullptr, wanted + ": [data.difficulty] needs it");
    } else if (!difficulty->is_number_integer() || *difficulty < 0 || *difficulty > max_difficulty) {
      refuse_field("metadata.difficulty", difficulty, wanted);
    } else {
      record_.difficulty = difficulty->get<int64_t>();
    }
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
  if (!full()) mistakes_.push_back(file.string() + ":" + std::to_string(line) + ":" + what);
}

void RecordMistakes::raise() const {
  if (mistakes_.empty()) return;
  std::string text = "the records have mistakes:";
  for (const std::string& one : mistakes_) text += "\n  " + one;
  if (full()) text += "\n  (further mistakes are not listed)";
  throw Error(ExitStatus::data, text);
}

void for_each_record(const fs::path& file, const RecordNeeds& needs, RecordMistakes& mistakes,
                     const std::function<void(const Record&)>& on_record, WorkProgress* progress) {
  check_file_kind(file, FileUse::json_lines);
  const std::string format = needs.format.empty() ? recognised_format(file) : needs.format;
  for_each_line(file, max_line_bytes, [&](int64_t number, std::string_view line, size_t bytes) {
    if (progress) progress->advance(int64_t(bytes) + 1);
    if (bytes > max_line_bytes) {
      mistakes.add(file, number,
                   " a line of " + human_bytes(int64_t(bytes)) + ", wanted at most " +
                       human_bytes(int64_t(max_line_bytes)) + ": one record on each line, each ended by a newline");
    } else if (!is_blank(line)) {
      LineReader(file, number, line, needs, mistakes).read(format, on_record);
    }
    return !mistakes.full();
  });
}

std::string format_prompt(const Prompt& prompt, const std::string& prompt_template) {
  const bool input = !prompt.input.empty();
  if (prompt_template == "none") return prompt.instruction + (input ? "\n" + prompt.input : "");
  if (prompt_template == "plain") {
    std::string text;
    for (const std::string* part : {&prompt.instruction, &prompt.input})
      if (!part->empty()) text.append(*part).append("\n");
    return text.empty() ? "\n" : text;
  }
  return std::string("Below is an instruction that describes a task") +
         (input ? ", paired with an input that provides further context" : "") +
         ". Write a response that appropriately completes the request.\n\n### Instruction:\n" + prompt.instruction +
         (input ? "\n\n### Input:\n" + prompt.input : "") + "\n\n### Response:";
}

std::vector<std::string> record_texts(const Record& record) {
  std::vector<std::string> texts{record.instruction, record.input, record.output};
  for (const auto& message : record.messages)
    if (const auto* content = find_field(message, "content")) texts.push_back(content->get<std::string>());
  std::erase(texts, "");
  return texts;
}

}  // namespace wmtp
