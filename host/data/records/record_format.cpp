#include "data/records/record_format.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/shell_text.hpp"
#include "base/text.hpp"
#include "data/records/import_records.hpp"
#include "data/records/record_file.hpp"
#include "data/records/record_weights.hpp"
#include "data/text/json_lines.hpp"

namespace wmtp {

namespace {

namespace fs = std::filesystem;

constexpr int objects_looked_at = 10, lines_looked_at = 100;
// Fields of messages that exclude an answer if they are true, and those that do so if they are not.
const std::set<std::string> masks{"mask", "masked", "ignore", "train_detail", "training_detail"};
const std::set<std::string> weights{"weight", "train", "training", "trainable", "loss", "loss_mask", "loss_scale"};
// What an answer may be about, and what is not read.
const std::set<std::string> media{"image", "images", "video", "videos", "audio", "audios"};
const std::set<std::string> parts_of_question{"context", "passage", "choices",
                                              "options", "suffix",  "initial_reason_steps"};
constexpr const char* a_list = "a list of at least one message";

struct Format {
  std::string name;
  std::vector<std::string> fields;  ///< that every line has
};

const std::vector<Format>& formats() {
  static const std::vector<Format> all{{"instructions", {"instruction", "output"}},
                                       {"messages", {"messages"}},
                                       {"conversations", {"conversations"}},
                                       {"completions", {"prompt", "completion"}},
                                       {"preferences", {"chosen", "rejected"}}};
  return all;
}

/// The names of all formats whose fields `has` accepts: every one, or any.
template <class Has>
std::vector<std::string> fitting(bool every, Has has) {
  std::vector<std::string> names;
  for (const Format& format : formats())
    if (every ? std::all_of(format.fields.begin(), format.fields.end(), has)
              : std::any_of(format.fields.begin(), format.fields.end(), has))
      names.push_back(format.name);
  return names;
}

std::string wanted_fields() {
  std::string text;
  for (const Format& format : formats()) text += (text.empty() ? "" : "; ") + join_names(format.fields);
  return text;
}

/// ShareGPT's names of those who speak.
std::string role_of(const std::string& from) {
  static const std::map<std::string, std::string> roles{
      {"human", "user"}, {"user", "user"}, {"gpt", "assistant"}, {"assistant", "assistant"}, {"system", "system"}};
  const auto found = roles.find(from);
  return found == roles.end() ? "" : found->second;
}

// How data sets call what an instruction asks, what it is about, and its answer.
constexpr std::array questions{"instruction", "question", "query", "problem", "prompt", "input"};
constexpr std::array subjects{"context", "passage", "input"};
constexpr std::array answers{"output", "response", "answer", "completion", "solution"};

template <size_t count>
std::string first_of(const Json& object, const std::array<const char*, count>& names) {
  const auto found = std::ranges::find_if(names, [&](const char* name) { return find_field(object, name) != nullptr; });
  return found == names.end() ? "" : *found;
}

/// "{instruction: .query, output: .response}"
std::string renaming_of(const Json& object) {
  const std::string question = first_of(object, questions), about = first_of(object, subjects),
                    answer = first_of(object, answers);
  return "{instruction: ." + (question.empty() ? "question" : question) +
         (about.empty() || about == question ? "" : ", input: ." + about) + ", output: ." +
         (answer.empty() ? "answer" : answer) + "}";
}

}  // namespace

const std::vector<std::string>& record_formats() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Format& format : formats()) all.push_back(format.name);
    return all;
  }();
  return names;
}

bool fits_record_format(const Json& object) {
  return !fitting(/*every=*/true, [&](const std::string& field) {
            return find_field(object, field) != nullptr;
          }).empty();
}

std::string recognised_format(const fs::path& file) {
  std::vector<std::string> first;   // the fields of the first object
  std::string published, renaming;  // its data set, and a program for jq
  bool is_close = false;
  int objects = 0;
  for (LineStream lines(file, max_line_bytes);
       objects < objects_looked_at && lines.number() < lines_looked_at && lines.next();) {
    const auto parsed = parse_object(lines.line(), [](const std::string&) { return true; });
    const auto* object = std::get_if<Json>(&parsed);
    if (!object) continue;
    const auto has = [&](const std::string& field) { return find_field(*object, field) != nullptr; };
    const std::vector<std::string> found = fitting(/*every=*/true, has);
    if (found.size() == 1) return found[0];
    if (found.size() > 1)
      throw Error(ExitStatus::data, file.string() + ": its records can be read as " + join_names(found) +
                                        "; choose one with data.format = \"" + found.back() + "\"");
    is_close = is_close || (has("instruction") && first_of(*object, answers).empty()) ||
               (has("output") && first_of(*object, questions).empty());
    if (objects++ > 0) continue;
    for (const auto& [name, value] : object->items()) first.push_back(name);
    published = detect_import_source(*object);
    renaming = renaming_of(*object);
  }
  if (objects == 0 || is_close) return "instructions";
  const std::string conversion =
      published.empty()
          ? "rename them in another file (jq -c '" + renaming + "' " + shell_path(file.string()) +
                "), or set [data] kind = \"text\" for texts without answers"
          : "convert them first: wmtp-host data prepare " + shell_path(file.string()) + " --from " + published +
                " -o " + shell_path(fs::path(file).replace_extension(".records.jsonl").string());
  throw Error(ExitStatus::data, file.string() + ": its first records have " +
                                    (first.empty() ? "no fields" : "the fields " + join_names(first)) +
                                    ", wanted those of one format: " + wanted_fields() + "; " + conversion);
}

void RecordFields::read(Record& record, const std::function<void()>& on_record) {
  const std::function<void()> finish_record = [&] {
    take_weights(record);
    on_record();
  };
  read_weight(record);
  for (const std::string& name : media) refuse_unread(name);
  for (const char* name : {"history", "functions", "documents", "system_prompt", "chat_template_kwargs"})
    refuse_unread(name);
  if (format_ != "messages" && format_ != "conversations")
    for (const std::string& name : parts_of_question) refuse_unread(name);
  if (format_ != "conversations") refuse_unread("system");
  if (format_ == "preferences") return read_preference(record, finish_record);
  refuse_disliked();
  if (format_ == "instructions") {
    refuse_unread("tools");
    record.instruction = text("instruction", true);
    record.input = text("input", false);
    record.output = text("output", true);
  } else if (format_ == "completions") {
    read_completion(record);
  } else {
    read_chat(record, format_);
  }
  if (good_) finish_record();
}

const OrderedJson* RecordFields::field(const std::string& name) const { return find_field(line_, name); }

void RecordFields::refuse(const std::string& field, const OrderedJson* found, const std::string& wanted) {
  refuse_(field, found, wanted);
  good_ = false;
}

void RecordFields::refuse_unread(const std::string& name) { refuse_unread(name, field(name)); }

void RecordFields::refuse_unread(const std::string& name, const OrderedJson* value) {
  if (value && !value->empty() && *value != "")
    refuse(name, value, "none: with data.format \"" + format_ + "\" it is not read, and the answer may depend on it");
}

/// As of data for KTO, also in a CSV. Where 0 may be a class, and not a judgement, only false is refused.
void RecordFields::refuse_disliked() {
  for (const char* name : {"label", "kto_tag"}) {
    const OrderedJson* value = field(name);
    if (!value) continue;
    const bool is_false = *value == false || *value == "False" || *value == "false";
    const bool judges = format_ == "completions" || name == std::string("kto_tag");
    if (is_false || (judges && (*value == 0 || *value == "0")))
      refuse(name, value, "true or none: every answer is learned");
  }
}

std::string RecordFields::text(const std::string& name, bool required) {
  const OrderedJson* value = field(name);
  if (value && value->is_string()) return value->get<std::string>();
  if (value || required) refuse(name, value, "a string");
  return {};
}

OrderedJson RecordFields::messages(const std::string& name, const OrderedJson* found) {
  OrderedJson list = OrderedJson::array();
  if (!found || !found->is_array() || found->empty()) {
    refuse(name, found, a_list);
    return list;
  }
  for (size_t i = 0; i < found->size(); ++i) {
    const std::string place = name + "[" + std::to_string(i) + "]";
    list.push_back(message(place, (*found)[i]));
    keep_weights(place, (*found)[i], list.back());
  }
  return list;
}

/// A message with a role and a content, as templates read it, and its other fields.
OrderedJson RecordFields::message(const std::string& place, const OrderedJson& given) {
  const auto refused = [&](const std::string& name, const OrderedJson* found, const std::string& wanted) {
    refuse(place + name, found, wanted);
    return OrderedJson{{"role", ""}, {"content", ""}};
  };
  if (!given.is_object()) return refused("", &given, "a message");
  const auto member = [&](const std::string& name) { return find_field(given, name); };
  for (const std::string& name : media)
    if (const OrderedJson* value = member(name)) refuse_unread(place + "." + name, value);
  const auto wrong_weight = [&](const std::string& role) -> std::string {
    for (const std::string& name : masks)
      if (const OrderedJson* value = member(name); role == "assistant" && value && *value != 0 && *value != false)
        return name;
    for (const std::string& name : weights) {
      if (name == "weight" && role == "assistant" && reads_weights_) continue;  // keep_weights() reads it
      const OrderedJson* value = member(name);
      const bool trains = value && (*value == 1 || *value == true), is_off = value && (*value == 0 || *value == false);
      if (value && (role == "assistant" ? !trains : !is_off && *value != 1)) return name;
    }
    return "";
  };
  const auto refused_weight = [&](const std::string& name) {
    return refused("." + name, member(name),
                   std::string(masks.contains(name) ? "false" : "1") +
                       " or none: every answer of the assistant is trained on, and nothing else" +
                       (name == "weight" ? "; for other weights, a pipeline that reads data.weight" : ""));
  };
  if (format_ == "conversations" && !member("role")) {
    const OrderedJson *from = member("from"), *value = member("value");
    const std::string role = from && from->is_string() ? role_of(from->get<std::string>()) : "";
    if (role.empty()) return refused(".from", from, "\"human\", \"gpt\" or \"system\"");
    if (!value || !value->is_string()) return refused(".value", value, "a string");
    if (const std::string name = wrong_weight(role); !name.empty()) return refused_weight(name);
    return {{"role", role}, {"content", *value}};
  }
  const OrderedJson *role = member("role"), *content = member("content");
  if (!role || !role->is_string()) return refused(".role", role, "a string");
  const std::string sharegpt = format_ == "conversations" ? role_of(*role) : "";
  const std::string known_role = sharegpt.empty() ? role->get<std::string>() : sharegpt;
  if (const std::string name = wrong_weight(known_role); !name.empty()) return refused_weight(name);
  const OrderedJson* calls = member("tool_calls");
  const bool may_be_missing = calls && !calls->empty();
  if (content ? !content->is_string() : !may_be_missing) return refused(".content", content, "a string");
  // Without fields that are null, as in transformers, because templates would write "None"; and without weights, which
  // keep_weights() reads, so that a message is the same for all pipelines.
  OrderedJson message = OrderedJson::object();
  for (const auto& [name, value] : given.items())
    if (!value.is_null() && !masks.contains(name) && !weights.contains(name) && name != "weights" &&
        (name != "tool_calls" || may_be_missing))
      message[name] = value;
  message["role"] = known_role;
  return message;
}

void RecordFields::read_weight(Record& record) {
  const OrderedJson *weight = field("weight"), *spans = field("weights");
  has_weights_ = (weight && weight->is_number()) || (spans && spans->is_array());
  if (!reads_weights_) return;
  const auto refused = [this](const auto&... mistake) { refuse(mistake...); };
  record.weight = read_weights({weight, nullptr}, 1, "", "", refused).others;
  if (spans && format_ != "instructions" && format_ != "completions")
    refuse("weights", spans, "none: they are characters of an answer; give them to its message");
}

/// In the message of an answer, where take_weights() finds them; no template writes them.
void RecordFields::keep_weights(const std::string& place, const OrderedJson& given, OrderedJson& message) {
  const GivenWeights found{find_field(given, "weight"), find_field(given, "weights")};
  has_weights_ = has_weights_ || found.spans || (found.all && found.all->is_number() && *found.all != 1);
  if (!reads_weights_) return;
  if (message["role"] != "assistant") {
    if (found.spans) refuse(place + ".weights", found.spans, "none: only answers of the assistant have weights");
    return;
  }
  const OrderedJson* content = find_field(message, "content");
  read_weights(found, 1, content ? content->get<std::string>() : "", place + ".",
               [this](const auto&... mistake) { refuse(mistake...); });
  weighs_messages_ = weighs_messages_ || (found.all && *found.all != 1);
  if (found.all) message["weight"] = *found.all;
  if (found.spans) message["weights"] = *found.spans;
}

void RecordFields::take_weights(Record& record) {
  record.has_weights = has_weights_;
  record.weighs_messages = weighs_messages_;
  record.weights.clear();
  if (!reads_weights_) return;
  const OrderedJson* spans = field("weights");
  const auto refused = [this](const auto&... mistake) { refuse(mistake...); };
  if (record.messages.is_null()) {
    record.weights.push_back(read_weights({nullptr, spans}, record.weight, record.output, "", refused));
    return;
  }
  if (spans) refuse("weights", spans, "none: they are characters of an answer; give them to its message");
  for (size_t i = 0; i < record.messages.size(); ++i) {
    OrderedJson& message = record.messages[i];
    if (message["role"] == "assistant" && i >= record.prompt_messages) {
      const OrderedJson* content = find_field(message, "content");
      record.weights.push_back(read_weights({find_field(message, "weight"), find_field(message, "weights")},
                                            record.weight, content ? content->get<std::string>() : "", "", refused));
    }
    for (const char* name : {"weight", "weights"}) message.erase(name);
  }
}

void RecordFields::read_chat(Record& record, const std::string& name) {
  record.messages = messages(name, field(name));
  const OrderedJson* system = field("system");
  if (system && format_ == "conversations" && !text("system", true).empty()) {
    if (good_ && record.messages[0]["role"] == "system")
      refuse("system", system, "none: the first message is a system prompt, too");
    record.messages.insert(record.messages.begin(), OrderedJson{{"role", "system"}, {"content", *system}});
  }
  read_tools(record);
  has_answer(record, name);
}

bool RecordFields::read_prompt(Prompt& prompt, std::string* answer) {
  prompt.messages = messages("messages", field("messages"));
  refuse_unread("system");
  read_tools(prompt);
  if (!good_) return false;
  const OrderedJson last = prompt.messages.back();
  const bool is_answer = last["role"] == "assistant";
  if (answer && is_answer && prompt.messages.size() > 1 && last.contains("content")) {
    *answer = last["content"].get<std::string>();
    prompt.messages.erase(prompt.messages.size() - 1);
  } else if (answer || is_answer) {
    const std::string place = "messages[" + std::to_string(prompt.messages.size() - 1) + "]";
    refuse(place + ".role", &last["role"],
           answer ? "\"assistant\": the expected answer, unless the field answer contains it"
                  : "a message that the assistant answers");
  }
  return good_;
}

void RecordFields::read_tools(Prompt& prompt) {
  const OrderedJson* tools = field("tools");
  OrderedJson written;  // in a string, for files whose columns need one type
  if (tools && tools->is_string()) {
    written = OrderedJson::parse(tools->get<std::string>(), nullptr, /*allow_exceptions=*/false);
    if (written.is_array()) tools = &written;
  }
  const auto is_object = [](const OrderedJson& one) { return one.is_object(); };
  if (tools && !(tools->is_array() && std::all_of(tools->begin(), tools->end(), is_object)))
    refuse("tools", tools, "a list of descriptions of tools, each an object");
  if (tools) prompt.tools = *tools;
}

void RecordFields::read_completion(Record& record) {
  const OrderedJson *prompt = field("prompt"), *completion = field("completion");
  if (!prompt || !completion || !prompt->is_array() || !completion->is_array()) {
    record.has_whole_prompt = true;
    refuse_unread("tools");
    record.instruction = text("prompt", true);
    record.output = text("completion", true);
    return;
  }
  record.messages = messages("prompt", prompt);
  record.prompt_messages = record.messages.size();
  for (const OrderedJson& one : messages("completion", completion)) record.messages.push_back(one);
  read_tools(record);
  has_answer(record, "completion");
}

/// The messages of an answer, after the prompt's unless they contain it.
OrderedJson RecordFields::preferred(const std::string& name) {
  const OrderedJson answer = messages(name, field(name));
  const OrderedJson* prompt = field("prompt");
  if (!good_) return answer;
  if (answer[0]["role"] != "assistant") {
    const auto is_prompt = [&](const OrderedJson& one) { return one.contains("content") && one["content"] == *prompt; };
    const OrderedJson before = prompt && !prompt->is_string() ? messages("prompt", prompt) : OrderedJson::array();
    const bool is_repeated = before.size() <= answer.size() && std::equal(before.begin(), before.end(), answer.begin());
    if (prompt && !(prompt->is_string() ? std::any_of(answer.begin(), answer.end(), is_prompt) : is_repeated))
      refuse("prompt", prompt, "none, or what " + name + " contains before its answer");
    return answer;
  }
  OrderedJson list = prompt && prompt->is_string() ? OrderedJson::array({{{"role", "user"}, {"content", *prompt}}})
                                                   : messages("prompt", prompt);
  for (const OrderedJson& one : answer) list.push_back(one);
  return list;
}

void RecordFields::read_preference(Record& record, const std::function<void()>& on_record) {
  const OrderedJson *chosen = field("chosen"), *rejected = field("rejected");
  const bool is_text = (chosen && chosen->is_string()) || (rejected && rejected->is_string());
  if (is_text) {
    refuse_unread("tools");
    record.has_whole_prompt = true;
    record.instruction = text("prompt", true);
    for (const char* name : {"chosen", "rejected"}) text(name, true);
    if (good_ && *chosen == *rejected) refuse("rejected", rejected, "another answer than chosen");
  }
  const OrderedJson lists[2]{is_text ? OrderedJson() : preferred("chosen"),
                             is_text ? OrderedJson() : preferred("rejected")};
  if (!is_text) read_tools(record);
  if (!good_) return;
  if (!is_text) {
    const auto [end, unused] = std::mismatch(lists[0].begin(), lists[0].end(), lists[1].begin(), lists[1].end());
    record.prompt_messages = size_t(end - lists[0].begin());
    for (const OrderedJson& list : lists)
      if (record.prompt_messages < list.size())
        if (const OrderedJson& role = list[record.prompt_messages]["role"]; role != "assistant" && role != "tool")
          refuse("rejected", rejected, "another answer to the messages of chosen, found another question");
    if (!good_) return;
  }
  for (const bool is_right : {true, false}) {
    record.correct = is_right;
    if (is_text)
      record.output = (is_right ? chosen : rejected)->get<std::string>();
    else
      record.messages = lists[is_right ? 0 : 1];
    if (is_text || has_answer(record, is_right ? "chosen" : "rejected")) on_record();
  }
}

bool RecordFields::has_answer(const Record& record, const std::string& name) {
  const auto begin = record.messages.begin() +
                     std::min(std::ptrdiff_t(record.prompt_messages), std::ptrdiff_t(record.messages.size()));
  const bool found = std::any_of(begin, record.messages.end(),
                                 [](const OrderedJson& message) { return message["role"] == "assistant"; });
  if (good_ && !found)
    refuse(name, field(name),
           "a message of the assistant" + std::string(format_ == "preferences" ? " that only this answer has" : ""));
  return good_;
}

}  // namespace wmtp
