#include "evaluate/suite.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/records/record_format.hpp"
#include "data/text/json_lines.hpp"
#include "data/text/jsonl_reader.hpp"

namespace wmtp {
namespace {

/// The fields of one line; missing fields and wrong types are added to the mistakes.
class Fields {
 public:
  Fields(int64_t line, const Json& object, std::string_view text, JsonlMistakes& mistakes)
      : line_(line), object_(object), text_(text), mistakes_(mistakes) {}

  std::string text(const char* name) {
    const Json* value = find(name, &Json::is_string, "a string");
    return value ? value->get<std::string>() : "";
  }

  /// A string; MBPP has numbers.
  std::string task_id() {
    if (has("task_id") && object_["task_id"].is_number_integer()) return "mbpp/" + object_["task_id"].dump();
    const Json* value = find("task_id", &Json::is_string, "a string or an integer");
    return value ? value->get<std::string>() : "";
  }

  std::string text_or_nothing(const char* name) { return has(name) ? text(name) : ""; }

  bool flag_or(const char* name, bool otherwise) {
    const Json* value = has(name) ? find(name, &Json::is_boolean, "true or false") : nullptr;
    return value ? value->get<bool>() : otherwise;
  }

  std::vector<std::string> texts(const char* name, bool may_be_empty = false) {
    std::vector<std::string> all;
    const Json* value = find(name, &Json::is_array, "a list of strings");
    if (value && value->empty() && !may_be_empty) mistakes_.add(line_, name, value, "a non-empty list of strings");
    for (const Json& one : value ? *value : Json::array()) {
      if (one.is_string())
        all.push_back(one.get<std::string>());
      else
        mistakes_.add(line_, name, &one, "a list of strings");
    }
    return all;
  }

  bool has(const char* name) const { return find_field(object_, name); }

  void refuse_unread(const char* name) {
    const Json* value = find_field(object_, name);
    if (value && !value->empty() && *value != "")
      mistakes_.add(line_, name, value, "none: it is not read, and the answer may depend on it; add it to the prompt");
  }

  /// Reads messages and tools; `answer`: see RecordFields::read_prompt.
  void chat(Prompt& prompt, std::string* answer) {
    static const std::string format = "messages";
    try {
      const OrderedJson line = ordered_object(text_);
      const RecordFields::Refuse refuse = [&](const std::string& field, const auto* found, const std::string& wanted) {
        const Json shown = found ? Json(*found) : Json();
        mistakes_.add(line_, field, found ? &shown : nullptr, wanted);
      };
      RecordFields(format, line, refuse).read_prompt(prompt, answer);
    } catch (const LineMistake& mistake) {
      mistakes_.add(line_, mistake);
    }
  }

 private:
  /// Null, recording a mistake, unless the field exists and has the type.
  const Json* find(const char* name, bool (Json::*has_type)() const noexcept, const std::string& wanted) {
    const Json* value = find_field(object_, name);
    if (value && (value->*has_type)()) return value;
    mistakes_.add(line_, name, value, wanted);
    return nullptr;
  }

  int64_t line_;
  const Json& object_;
  std::string_view text_;  ///< of the line
  JsonlMistakes& mistakes_;
};

void add_human_eval_test(Fields& fields, Problem& problem) {
  problem.entry_point = fields.text("entry_point");
  problem.tests = fields.text("test") + "\ncheck(" + problem.entry_point + ")\n";
}

/// Returns the tests of the list.
std::vector<std::string> add_mbpp_tests(Fields& fields, Problem& problem) {
  if (fields.has("test_setup_code")) problem.tests = fields.text("test_setup_code") + "\n";
  if (fields.has("test_imports"))
    for (const std::string& import : fields.texts("test_imports", /*may_be_empty=*/true))
      problem.tests += import + "\n";
  const std::vector<std::string> tests = fields.texts("test_list");
  for (const std::string& test : tests) problem.tests += test + "\n";
  return tests;
}

void read_human_eval(Fields& fields, Problem& problem) {
  problem.before = fields.text("prompt");
  problem.prompt = whole_prompt(problem.before);
  add_human_eval_test(fields, problem);
}

/// The task and its tests, which name the function, as a docstring, as in InCoder (Fried et al. 2022, arXiv 2204.05999;
/// bigcode's harness shows only the first test). Austin et al. show solved tasks first, each after "You are an expert
/// Python programmer, …".
/// The sanitized problems name the task `prompt`, and list imports.
void read_mbpp(Fields& fields, Problem& problem) {
  std::string text = "\"\"\"\n" + fields.text(fields.has("text") ? "text" : "prompt") + "\n";
  for (const std::string& test : add_mbpp_tests(fields, problem)) text += test + "\n";
  problem.prompt = whole_prompt(text + "\"\"\"\n");
}

void read_messages_and_tests(Fields& fields, Problem& problem) {
  fields.chat(problem.prompt, nullptr);
  if (fields.has("test_list"))
    add_mbpp_tests(fields, problem);
  else
    add_human_eval_test(fields, problem);
}

/// The expected answer is a field, or the last message of a chat as it is trained on.
void read_messages(Fields& fields, Problem& problem) {
  const bool has_answer = fields.has("answer");
  problem.answer = has_answer ? fields.text("answer") : "";
  fields.chat(problem.prompt, has_answer ? nullptr : &*problem.answer);
}

// What a question may be about; a whole prompt has it.
constexpr const char* unread_fields[] = {"context", "choices", "options", "history", "system",
                                         "image",   "images",  "audio",   "video",   "documents"};

void read_question(Fields& fields, Problem& problem) {
  for (const char* name : unread_fields) fields.refuse_unread(name);
  fields.refuse_unread("input");
  problem.prompt.instruction = fields.text("question");
  make_chat(problem.prompt);
  problem.answer = fields.text("answer");
}

void read_record(Fields& fields, Problem& problem) {
  for (const char* name : unread_fields) fields.refuse_unread(name);
  problem.prompt.instruction = fields.text("instruction");
  problem.prompt.input = fields.text_or_nothing("input");
  problem.answer = fields.text("output");
}

void read_completion(Fields& fields, Problem& problem) {
  problem.prompt = whole_prompt(fields.text("prompt"));
  problem.answer = fields.text("completion");
}

struct Format {
  const char* name;
  std::vector<const char*> fields;  ///< that tell it from those below
  void (*read)(Fields& fields, Problem& problem);
  bool runs_programs, has_template;
  std::vector<std::string> stops = {};
};

const std::vector<Format>& formats() {
  static const std::vector<Format> all{
      {"messages with tests", {"messages", "test"}, read_messages_and_tests, true, true},
      {"messages with tests", {"messages", "test_list"}, read_messages_and_tests, true, true},
      {"messages", {"messages"}, read_messages, false, true},
      {"HumanEval", {"entry_point"}, read_human_eval, true, false, {"\nclass", "\ndef", "\n#", "\nif", "\nprint"}},
      {"MBPP", {"test_list"}, read_mbpp, true, false, {"\nclass", "\nassert", "\n\"\"\"", "\nprint", "\nif"}},
      {"questions", {"question"}, read_question, false, true},
      {"records", {"instruction"}, read_record, false, true},
      {"completions", {"completion"}, read_completion, false, false}};
  return all;
}

const Format* format_of(const Fields& fields) {
  for (const Format& format : formats())
    if (std::ranges::all_of(format.fields, [&](const char* name) { return fields.has(name); })) return &format;
  return nullptr;
}

/// EvalPlus writes "Mbpp/2" for the task that MBPP calls 2.
std::string sample_id(Fields& fields, const std::map<std::string, size_t>& places) {
  const std::string task_id = fields.task_id();
  const bool is_known = places.count(task_id) > 0 || !task_id.starts_with("Mbpp/");
  return is_known ? task_id : "mbpp/" + task_id.substr(5);
}

}  // namespace

Suite read_suite(const std::filesystem::path& file) {
  Suite suite;
  std::map<std::string, std::pair<int64_t, size_t>> places;  // of a task: its line, and its place among the problems
  const Format* format = nullptr;
  JsonlMistakes mistakes(file);
  std::vector<std::string> wanted{"task_id",    "prompt",       "entry_point",     "test",        "text",
                                  "test_list",  "test_imports", "test_setup_code", "messages",    "tools",
                                  "question",   "answer",       "input",           "instruction", "output",
                                  "is_correct", "completion"};
  std::ranges::copy(unread_fields, std::back_inserter(wanted));
  for_each_json_text(file, wanted, mistakes, [&](int64_t line, const Json& object, std::string_view text) {
    Fields fields(line, object, text, mistakes);
    const Format* here = format_of(fields);
    if (!here)
      return mistakes.add(
          line, "",
          "missing all of entry_point (HumanEval), test_list (MBPP), messages, question, instruction (records) "
          "and completion: cannot be judged");
    if (format && std::string(format->name) != here->name)
      return mistakes.add(line, "",
                          std::string("has the format of ") + here->name +
                              ", unlike earlier lines; all lines of a suite must have the same format");
    format = here;
    if (!here->runs_programs && !fields.flag_or("is_correct", true)) return;
    Problem problem;
    here->read(fields, problem);
    problem.line = text;
    const bool needs_id = here->runs_programs && !here->has_template;
    problem.task_id = needs_id || fields.has("task_id") ? fields.task_id() : "line " + std::to_string(line);
    const auto [place, is_new] = places.emplace(problem.task_id, std::pair(line, suite.problems.size()));
    if (is_new) return suite.problems.push_back(std::move(problem));
    const auto& [first_line, first] = place->second;
    const bool is_another_answer = !here->runs_programs && suite.problems[first].prompt == problem.prompt;
    if (!is_another_answer && !problem.task_id.empty())
      mistakes.add(line, "task_id",
                   "\"" + problem.task_id + "\" is already on line " + std::to_string(first_line) +
                       (here->runs_programs ? "" : ", with another question"));
  });
  mistakes.raise();
  if (suite.problems.empty()) throw Error(ExitStatus::data, file.string() + ": contains no problem");
  suite.runs_programs = format->runs_programs;
  suite.has_template = format->has_template;
  suite.stops = format->stops;
  return suite;
}

std::vector<Sample> read_samples(const std::filesystem::path& file, const std::vector<Problem>& problems) {
  std::map<std::string, size_t> places;
  std::vector<std::string> names;
  for (size_t i = 0; i < problems.size(); ++i) {
    places[problems[i].task_id] = i;
    names.push_back(problems[i].task_id);
  }
  std::vector<Sample> samples;
  JsonlMistakes mistakes(file);
  for_each_json_line(file, {"task_id", "completion", "solution"}, mistakes, [&](int64_t line, const Json& object) {
    Fields fields(line, object, "", mistakes);
    const bool is_whole = fields.has("solution") && !fields.has("completion");
    const std::string task_id = sample_id(fields, places), text = fields.text(is_whole ? "solution" : "completion");
    const auto found = places.find(task_id);
    if (found != places.end()) return samples.push_back({found->second, text, is_whole});
    if (task_id.empty()) return;  // already reported
    const std::string near = nearest_name(task_id, names);
    mistakes.add(line, "task_id",
                 "\"" + task_id + "\" is not in the suite" + (near.empty() ? "" : "; did you mean \"" + near + "\"?"));
  });
  mistakes.raise();
  if (samples.empty()) throw Error(ExitStatus::data, file.string() + ": contains no sample");
  return samples;
}

}  // namespace wmtp
