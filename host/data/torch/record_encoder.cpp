#include "data/torch/record_encoder.hpp"

#include <algorithm>
#include <iterator>

#include "base/error.hpp"
#include "data/text/json_lines.hpp"
#include "tokenizer/tokenizer_files.hpp"

namespace wmtp {

namespace {

bool is_chat_template(const std::string& name) { return name == "chat" || name == "chatml"; }

/// An instruction and its answer as a chat.
Record as_chat(Record record) {
  make_chat(record);
  record.messages.push_back({{"role", "assistant"}, {"content", record.output}});
  return record;
}

/// Removes parts without ids: two equal positions enclose one, a position at the end begins one.
std::vector<int32_t> without_empty_parts(const std::vector<int32_t>& turns, size_t ids) {
  std::vector<int32_t> kept;
  for (const int32_t turn : turns) {
    if (!kept.empty() && kept.back() == turn)
      kept.pop_back();
    else
      kept.push_back(turn);
  }
  if (!kept.empty() && size_t(kept.back()) == ids) kept.pop_back();
  return kept;
}

}  // namespace

RecordTemplate record_template(const Experiment& experiment) {
  const TokenizerConfig& tokenizer = experiment.data.tokenizer;
  const bool is_json = tokenizer.kind == TokenizerKind::file && is_tokenizer_json(tokenizer.file);
  return {experiment.data.prompt_template, is_json ? experiment.resolve(tokenizer.file) : std::filesystem::path()};
}

std::string RecordEncoder::template_of(const Prompt& prompt) const {
  if (!wanted_.name.empty()) return wanted_.name;
  return prompt.messages.is_array() ? "chat" : prompt.has_whole_prompt ? "none" : "alpaca";
}

EncodedRecord RecordEncoder::encode(const Record& record) {
  const bool is_chat = record.messages.is_array();
  const std::string name = template_of(record);
  if (is_chat_template(name)) return encode_chat(is_chat ? record : as_chat(record), name);
  if (is_chat)
    throw Error(ExitStatus::data, "records of messages need " + template_setting(wanted_.where, "chat") +
                                      ", the tokenizer's chat template, or " +
                                      template_setting(wanted_.where, "chatml") + "; found \"" + name + "\"");
  EncodedRecord encoded{tokenizer_.encode(format_prompt(record, name)), {}};
  encoded.turns = {int32_t(encoded.ids.size())};
  const std::vector<int32_t> answer = tokenizer_.encode(record.output);
  encoded.ids.insert(encoded.ids.end(), answer.begin(), answer.end());
  const auto end_of_text = int32_t(tokenizer_.end_of_text());
  if (answer.empty() || answer.back() != end_of_text) encoded.ids.push_back(end_of_text);
  const auto before = int32_t(begin_text(encoded.ids));
  encoded.turns[0] += before;
  return encoded;
}

EncodedPrompt RecordEncoder::encode_prompt(const Prompt& asked) {
  const bool is_chat = asked.messages.is_array();
  const std::string name = template_of(asked);
  EncodedPrompt prompt;
  if (is_chat_template(name)) {
    Prompt chat = asked;
    if (!is_chat) make_chat(chat);
    const ChatPrompt rendered = name == "chatml" ? chatml_prompt(chat) : chat_template().render_prompt(chat);
    prompt.ids = tokenizer_.encode(rendered.text);
    if (name == "chatml") begin_text(prompt.ids);
    set_end(prompt, rendered);
    return prompt;
  }
  Prompt question = asked;
  if (is_chat) {
    const OrderedJson& first = asked.messages[0];
    if (asked.messages.size() > 1 || first.at("role") != "user" || !first.contains("content"))
      throw LineMistake{{},
                        "",
                        "the template \"" + name + "\" writes one question, and neither a system prompt nor several " +
                            "turns; wanted a model that was trained on chats, or " +
                            template_setting(wanted_.where, "chat")};
    question.instruction = first.at("content").get<std::string>();
  }
  prompt.ids = tokenizer_.encode(format_prompt(question, name));
  begin_text(prompt.ids);
  return prompt;
}

void RecordEncoder::set_end(EncodedPrompt& prompt, const ChatPrompt& chat) const {
  const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
  if (std::all_of(chat.before.begin(), chat.before.end(), is_space)) prompt.before = chat.before;
  const auto begin = std::find_if_not(chat.after.begin(), chat.after.end(), is_space);
  const auto end = std::find_if_not(chat.after.rbegin(), std::make_reverse_iterator(begin), is_space).base();
  prompt.after = {chat.after.begin(), begin};
  prompt.stop = {begin, end};
  const std::vector<int32_t> ids = tokenizer_.encode(prompt.stop);
  const auto special = std::find_if(ids.begin(), ids.end(), [&](int32_t id) {
    return tokenizer_.decode({id}).empty() && !tokenizer_.piece(id).empty();
  });
  if (special == ids.end()) return;
  if (special == ids.begin()) prompt.end = *special;
  prompt.stop = tokenizer_.decode({ids.begin(), special});
}

size_t RecordEncoder::begin_text(std::vector<int32_t>& ids) const {
  const std::vector<int32_t> before = tokenizer_.missing_prefix_ids(ids);
  ids.insert(ids.begin(), before.begin(), before.end());
  return before.size();
}

EncodedRecord RecordEncoder::encode_chat(const Record& record, const std::string& prompt_template) {
  EncodedRecord encoded;
  if (prompt_template == "chatml") {
    encoded = encode_parts(chatml_parts(record));
    const auto before = int32_t(begin_text(encoded.ids));
    for (int32_t& turn : encoded.turns) turn += before;
    encoded.turns = without_empty_parts(encoded.turns, encoded.ids.size());
    if (encoded.ids.back() != tokenizer_.end_of_text()) encoded.ids.push_back(int32_t(tokenizer_.end_of_text()));
  } else {
    encoded = encode_parts(chat_template().render(record));
    encoded.turns = without_empty_parts(encoded.turns, encoded.ids.size());
  }
  if (encoded.turns.empty()) throw LineMistake{{}, "", "the chat template writes no token of the assistant"};
  return encoded;
}

ChatTemplate& RecordEncoder::chat_template() {
  if (wanted_.tokenizer.empty())
    throw Error(
        ExitStatus::data,
        wanted_.where == TemplateSetting::experiment
            ? "records of messages need a chat template: set data.tokenizer to the tokenizer.json of a model "
              "that has one, or data.template = \"chatml\""
            : "the model has no chat template: wanted a tokenizer.json with one; choose the template with which "
              "it was trained by --template chatml, alpaca or plain");
  if (!chat_template_) chat_template_ = std::make_unique<ChatTemplate>(wanted_.tokenizer, wanted_.where);
  return *chat_template_;
}

std::string RecordEncoder::decode_with_offsets(const std::vector<int32_t>& ids, std::vector<size_t>& ends) const {
  std::string text;
  ends.clear();
  for (const int32_t id : ids) {
    text += tokenizer_.piece(id);
    ends.push_back(text.size());
  }
  return text;
}

EncodedRecord RecordEncoder::encode_parts(const std::vector<std::string>& parts) const {
  std::string text;
  for (const std::string& part : parts) text += part;
  EncodedRecord encoded{tokenizer_.encode(text), {}};
  const std::vector<int32_t>& ids = encoded.ids;
  std::vector<size_t> ends, ends_before;
  const bool is_kept = decode_with_offsets(ids, ends) == text;  // not so if the tokenizer normalizes it or adds spaces
  size_t begin = 0, bytes = 0, done = 0;
  bool are_separate = !is_kept;  // no id so far belongs to two parts, so that their ids are those of the whole
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    bytes += parts[i].size();
    if (are_separate) {
      const std::vector<int32_t> part = tokenizer_.encode(parts[i]);
      are_separate =
          part.size() <= ids.size() - done && std::equal(part.begin(), part.end(), ids.begin() + std::ptrdiff_t(done));
      if (are_separate) done += part.size();
    }
    const size_t last_turn = encoded.turns.empty() ? 0 : size_t(encoded.turns.back());
    const size_t end = is_kept ? bytes
                       : are_separate
                           ? (done == 0 ? 0 : ends[done - 1])
                           : decode_with_offsets(tokenizer_.encode(text.substr(0, bytes)), ends_before).size();
    // The first id that ends after a prompt; after an answer, the first that does not begin before its end.
    const bool is_prompt = i % 2 == 0;
    const auto found =
        is_prompt ? std::upper_bound(ends.begin(), ends.end(), end) : std::lower_bound(ends.begin(), ends.end(), end);
    const size_t id = std::min(ids.size(), size_t(found - ends.begin()) + (is_prompt ? 0 : 1));
    encoded.turns.push_back(int32_t(end == begin && !is_prompt ? last_turn : std::max(last_turn, id)));
    begin = end;
  }
  return encoded;
}

}  // namespace wmtp
