#include "evaluate/suite.hpp"

#include <map>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/records/record_file.hpp"
#include "data/text/json_lines.hpp"
#include "data/text/jsonl_reader.hpp"

namespace wmtp {
namespace {

/// The fields of one line; missing fields and wrong types are added to the mistakes.
class Fields {
 public:
  Fields(int64_t line, const Json& object, JsonlMistakes& mistakes)
      : line_(line), object_(object), mistakes_(mistakes) {}

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
  JsonlMistakes& mistakes_;
};

Problem human_eval(Fields& fields) {
  Problem problem;
  problem.prompt = problem.before = fields.text("prompt");
  problem.entry_point = fields.text("entry_point");
  problem.tests = fields.text("test") + "\ncheck(" + problem.entry_point + ")\n";
  return problem;
}

/// The task and its tests, which name the function, as a docstring, as in InCoder (Fried et al. 2022, arXiv 2204.05999;
/// bigcode's harness shows only the first test). Austin et al. show solved tasks first, each after "You are an expert
/// Python programmer, …".
/// The sanitized problems name the task `prompt`, and list imports.
Problem mbpp(Fields& fields) {
  Problem problem;
  problem.prompt = "\"\"\"\n" + fields.text(fields.has("text") ? "text" : "prompt") + "\n";
  if (fields.has("test_setup_code")) problem.tests = fields.text("test_setup_code") + "\n";
  if (fields.has("test_imports"))
    for (const std::string& import : fields.texts("test_imports", /*may_be_empty=*/true))
      problem.tests += import + "\n";
  for (const std::string& test : fields.texts("test_list")) {
    problem.prompt += test + "\n";
    problem.tests += test + "\n";
  }
  problem.prompt += "\"\"\"\n";
  return problem;
}

Problem record(Fields& fields, const std::string& prompt_template) {
  Record record;
  record.instruction = fields.text("instruction");
  record.input = fields.text_or_nothing("input");
  Problem problem;
  problem.prompt = format_prompt(record, prompt_template);
  problem.answer = fields.text("output");
  return problem;
}

enum class Shape { human_eval, mbpp, records };

const char* shape_name(Shape shape) {
  return shape == Shape::human_eval ? "HumanEval" : shape == Shape::mbpp ? "MBPP" : "records";
}

std::optional<Shape> shape_of(const Fields& fields) {
  if (fields.has("entry_point")) return Shape::human_eval;
  if (fields.has("test_list")) return Shape::mbpp;
  if (fields.has("instruction")) return Shape::records;
  return std::nullopt;
}

std::vector<std::string> stops_of(Shape shape) {
  switch (shape) {
    case Shape::human_eval:
      return {"\nclass", "\ndef", "\n#", "\nif", "\nprint"};
    case Shape::mbpp:
      return {"\nclass", "\nassert", "\n\"\"\"", "\nprint", "\nif"};
    case Shape::records:
      return {};
  }
  return {};
}

/// EvalPlus writes "Mbpp/2" for the task that MBPP calls 2.
std::string sample_id(Fields& fields, const std::map<std::string, size_t>& places) {
  const std::string task_id = fields.task_id();
  const bool is_known = places.count(task_id) > 0 || !task_id.starts_with("Mbpp/");
  return is_known ? task_id : "mbpp/" + task_id.substr(5);
}

}  // namespace

Suite read_suite(const std::filesystem::path& file, const std::string& prompt_template) {
  Suite suite;
  std::map<std::string, int64_t> lines;
  std::optional<Shape> shape;
  JsonlMistakes mistakes(file);
  const std::vector<std::string> wanted{"task_id",     "prompt",    "entry_point",     "test",
                                        "text",        "test_list", "test_setup_code", "test_imports",
                                        "instruction", "input",     "output",          "is_correct"};
  for_each_json_line(file, wanted, mistakes, [&](int64_t line, const Json& object) {
    Fields fields(line, object, mistakes);
    const std::optional<Shape> here = shape_of(fields);
    if (!here)
      return mistakes.add(
          line, "",
          "missing all of entry_point (HumanEval), test_list (MBPP) and instruction (records): cannot be "
          "judged");
    if (shape.value_or(*here) != *here)
      return mistakes.add(line, "",
                          std::string("has the format of ") + shape_name(*here) +
                              ", unlike earlier lines; all lines of a suite must have the same format");
    shape = here;
    const bool is_record = *here == Shape::records;
    if (is_record && !fields.flag_or("is_correct", true)) return;
    Problem problem = is_record                    ? record(fields, prompt_template)
                      : *here == Shape::human_eval ? human_eval(fields)
                                                   : mbpp(fields);
    problem.task_id = is_record && !fields.has("task_id") ? "line " + std::to_string(line) : fields.task_id();
    const auto [place, is_new] = lines.emplace(problem.task_id, line);
    if (!is_new && is_record) return;
    if (!is_new && !problem.task_id.empty())
      mistakes.add(line, "task_id", "\"" + problem.task_id + "\" is already on line " + std::to_string(place->second));
    suite.problems.push_back(std::move(problem));
  });
  mistakes.raise();
  if (suite.problems.empty()) throw Error(ExitStatus::data, file.string() + ": contains no problem");
  suite.runs_programs = *shape != Shape::records;
  suite.stops = stops_of(*shape);
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
    Fields fields(line, object, mistakes);
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
