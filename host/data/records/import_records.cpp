// The fields of each source, and the conversion of an object to records.
#include "data/records/import_records.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/text/json_lines.hpp"
#include "data/text/jsonl_reader.hpp"
#include "data/text/jsonl_writer.hpp"

namespace wmtp {

namespace {

namespace fs = std::filesystem;

enum class FieldType { text, parsed_number, texts, solutions, language, difficulty };

struct Field {
  const char* name;
  FieldType type;
  bool required = true;
};

/// Inputs of a conversion besides the object, and the function that writes a record.
struct Context {
  std::string file, language;
  int64_t line = 0;
  std::function<void(const OrderedJson&)> add;
};

struct Source {
  const char* name;
  std::vector<Field> fields;
  std::function<void(const Json&, const Context&)> convert;
  bool is_alone = false;  ///< lines with other fields are of something else
};

/// Indexed by the numbers in contest_problem.proto: the published name and the name used here.
struct Language {
  const char *published, *name;
};
constexpr Language languages[]{
    {"unknown_language", ""}, {"python", "python2"}, {"cpp", "cpp"}, {"python3", "python3"}, {"java", "java"}};

/// In the order of FieldType.
constexpr std::array wanted_texts{"a string",
                                  "an integer",
                                  "a list of strings",
                                  "a list of {language, solution}, or {language: [...], solution: [...]} of one length",
                                  "a number from 0 to 4 or a name like PYTHON3",
                                  "a number from 0 to 29"};
static_assert(wanted_texts.size() == size_t(FieldType::difficulty) + 1);

bool is_whole(const Json& value, int64_t min, int64_t max) {
  return value.is_number_integer() && value >= min && value <= max;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return text;
}

/// The language given by number or name, or null.
const Language* language_of(const Json& value) {
  if (is_whole(value, 0, int64_t(std::size(languages)) - 1)) return &languages[value.get<size_t>()];
  if (!value.is_string()) return nullptr;
  const std::string name = lower(value.get<std::string>());
  const auto found = std::find_if(std::begin(languages), std::end(languages),
                                  [&](const Language& one) { return name == one.published; });
  return found == std::end(languages) ? nullptr : found;
}

/// Pairs of language and solution; null if missing.
using Solutions = std::vector<std::pair<const Json*, const Json*>>;

/// Reads both published forms; nullopt if the value has neither.
std::optional<Solutions> pairs_of(const Json& value) {
  Solutions pairs;
  if (value.is_array()) {
    for (const Json& one : value) pairs.emplace_back(find_field(one, "language"), find_field(one, "solution"));
    return pairs;
  }
  const Json *of = find_field(value, "language"), *texts = find_field(value, "solution");
  if (!of || !texts || !of->is_array() || !texts->is_array() || of->size() != texts->size()) return std::nullopt;
  for (size_t i = 0; i < of->size(); ++i) pairs.emplace_back(&(*of)[i], &(*texts)[i]);
  return pairs;
}

class FieldCheck {
 public:
  FieldCheck(int64_t line, JsonlMistakes& mistakes) : line_(line), mistakes_(mistakes) {}

  void check(const Json& object, const Field& field) {
    const Json* value = find_field(object, field.name);
    if (value || field.required) check(value, field.name, field.type);
  }

 private:
  void check(const Json* value, const std::string& name, FieldType type) {
    if (!value || !good(*value, name, type)) mistakes_.add(line_, name, value, wanted_texts[size_t(type)]);
  }

  bool good(const Json& value, const std::string& name, FieldType type) {
    switch (type) {
      case FieldType::text:
        return value.is_string();
      case FieldType::parsed_number:
        return value.is_number_integer();
      case FieldType::difficulty:
        return is_whole(value, 0, 29);
      case FieldType::language:
        return language_of(value) != nullptr;
      case FieldType::texts:
        if (!value.is_array()) return false;
        for (size_t i = 0; i < value.size(); ++i)
          check(&value[i], name + "[" + std::to_string(i) + "]", FieldType::text);
        return true;
      case FieldType::solutions:
        return good_solutions(value, name);
    }
    return false;
  }

  bool good_solutions(const Json& value, const std::string& name) {
    const auto pairs = pairs_of(value);
    if (!pairs) return false;
    for (size_t i = 0; i < pairs->size(); ++i) {
      const std::string place = name + "[" + std::to_string(i) + "].";
      check((*pairs)[i].first, place + "language", FieldType::language);
      check((*pairs)[i].second, place + "solution", FieldType::text);
    }
    return true;
  }

  int64_t line_;
  JsonlMistakes& mistakes_;
};

OrderedJson record_of(const Json& instruction, const std::string& input, const Json& output, const std::string& task_id,
                      bool correct, const char* source) {
  return {{"instruction", instruction}, {"input", input},        {"output", output},
          {"task_id", task_id},         {"is_correct", correct}, {"metadata", {{"source", source}}}};
}

void add_solutions(const Json& object, const char* field, bool correct, const Context& context) {
  if (!find_field(object, field)) return;
  const Json *number = find_field(object, "source"), *difficulty = find_field(object, "difficulty");
  const std::string source = number ? number->dump() : "0";
  const std::string task_id = "codecontests/" + source + "/" + object["name"].get<std::string>();
  const Solutions pairs = pairs_of(object[field]).value();
  for (const auto& [language, solution] : pairs) {
    if (language_of(*language)->name != context.language) continue;
    OrderedJson record = record_of(object["description"], "", *solution, task_id, correct, "codecontests");
    if (difficulty && *difficulty != 0) record["metadata"]["difficulty"] = *difficulty;
    context.add(record);
  }
}

const std::vector<Source>& sources() {
  using enum FieldType;
  static const std::vector<Source> all{
      {"humaneval",
       {{"task_id", text}, {"prompt", text}, {"canonical_solution", text}},
       [](const Json& object, const Context& context) {
         context.add(
             record_of(object["prompt"], "", object["canonical_solution"], object["task_id"], true, "humaneval"));
       }},
      {"mbpp",
       {{"task_id", parsed_number}, {"text", text}, {"code", text}, {"test_list", texts}},
       [](const Json& object, const Context& context) {
         std::string tests;
         for (const Json& test : object["test_list"]) tests += (tests.empty() ? "" : "\n") + test.get<std::string>();
         context.add(
             record_of(object["text"], tests, object["code"], "mbpp/" + object["task_id"].dump(), true, "mbpp"));
       }},
      {"gsm8k",
       {{"question", text}, {"answer", text}},
       [](const Json& object, const Context& context) {
         const std::string task_id = "gsm8k/" + context.file + "/" + std::to_string(context.line);
         context.add(record_of(object["question"], "", object["answer"], task_id, true, "gsm8k"));
       },
       /*is_alone=*/true},
      {"codecontests",
       {{"name", text},
        {"description", text},
        {"source", parsed_number, false},
        {"difficulty", difficulty, false},
        {"solutions", solutions},
        {"incorrect_solutions", solutions, false}},
       [](const Json& object, const Context& context) {
         add_solutions(object, "solutions", true, context);
         add_solutions(object, "incorrect_solutions", false, context);
       }}};
  return all;
}

const Source& source_of(const std::string& name) {
  const auto& all = sources();
  return *std::find_if(all.begin(), all.end(), [&](const Source& one) { return one.name == name; });
}

std::vector<std::string> field_names(const Source& source) {
  std::vector<std::string> names;
  for (const Field& field : source.fields) names.emplace_back(field.name);
  return names;
}

}  // namespace

const std::vector<std::string>& import_sources() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Source& source : sources()) all.emplace_back(source.name);
    return all;
  }();
  return names;
}

std::string detect_import_source(const Json& line) {
  for (const Source& source : sources()) {
    const auto has = [&](const Field& field) { return !field.required || find_field(line, field.name); };
    if (source.is_alone && line.size() > source.fields.size()) continue;
    if (std::all_of(source.fields.begin(), source.fields.end(), has)) return source.name;
  }
  return "";
}

const std::vector<std::string>& import_languages() {
  static const std::vector<std::string> names{"python2", "cpp", "python3", "java"};
  return names;
}

Imported import_records(const std::string& from, const std::string& language, const fs::path& raw,
                        const fs::path& jsonl) {
  const Source& source = source_of(from);
  Imported imported;
  JsonlMistakes mistakes(raw);
  JsonlWriter out(jsonl);
  Context context{raw.stem().string(), language, 0, [&](const OrderedJson& record) {
                    ++(record["is_correct"].get<bool>() ? imported.right : imported.wrong);
                    out.add(record.dump());
                  }};
  for_each_json_line(raw, field_names(source), mistakes, [&](int64_t line, const Json& object) {
    const int64_t before = mistakes.count();
    for (const Field& field : source.fields) FieldCheck(line, mistakes).check(object, field);
    if (mistakes.count() > before) return;
    ++imported.problems;
    context.line = line;
    source.convert(object, context);
  });
  mistakes.raise();
  if (imported.right + imported.wrong == 0) {
    throw Error(ExitStatus::data, raw.string() + ": contains no record: found " +
                                      counted(imported.problems, "problem") +
                                      (imported.problems > 0 ? ", none with a solution in " + language : ""));
  }
  out.publish();
  return imported;
}

}  // namespace wmtp
