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

/// Where a template wrote the content of an answer, without the white space around it, which it may remove.
struct WrittenContent {
  size_t begin, end;      ///< in the content
  std::ptrdiff_t offset;  ///< of the answer's byte from the content's
};

WrittenContent find_content(const std::string& content, const std::string& answer) {
  constexpr const char* space = " \t\r\n";
  const size_t begin = content.find_first_not_of(space), end = content.find_last_not_of(space) + 1;
  if (begin == std::string::npos) return {0, 0, 0};
  const std::string written = content.substr(begin, end - begin);
  const size_t found = answer.starts_with(content) ? begin : answer.find(written);
  if (found == std::string::npos || (found != begin && answer.find(written, found + 1) != std::string::npos))
    throw LineMistake{{},
                      "weights",
                      "the chat template " + std::string(found == std::string::npos ? "does not write" : "repeats") +
                          " the content of an answer as it is, which hides where its characters are; wanted a weight "
                          "of the whole message"};
  return {begin, end, std::ptrdiff_t(found) - std::ptrdiff_t(begin)};
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
  EncodedRecord encoded = encode_strings(format_prompt(record, name), record);
  const bool has_answer = encoded.turns[0] < int32_t(encoded.ids.size());
  if (const auto end = int32_t(tokenizer_.end_of_text()); !has_answer || encoded.ids.back() != end) {
    encoded.ids.push_back(end);
    if (!record.weights.empty()) encoded.weights.push_back(record.weights.front().others);
  }
  const size_t before = begin_text(encoded.ids);
  encoded.turns[0] += int32_t(before);
  if (!record.weights.empty()) encoded.weights.insert(encoded.weights.begin(), before, record.weight);
  return encoded;
}

/// Without what begins and ends a text.
EncodedRecord RecordEncoder::encode_strings(const std::string& prompt, const Record& record) const {
  const bool is_continued = tokenizer_.encodes_continuations();
  EncodedRecord encoded;
  int32_t last = -1;
  if (is_continued) {
    encoded.ids = tokenizer_.encode(prompt);
    encoded.turns = {int32_t(encoded.ids.size())};
    last = encoded.ids.empty() ? -1 : encoded.ids.back();
    tokenizer_.encode_begin(record.output, /*more_follows=*/false, encoded.ids, last);
  } else {
    encoded = encode_parts({prompt, record.output});
  }
  if (record.weights.empty()) return encoded;
  const AnswerWeights& of_answer = record.weights.front();
  encoded.weights.assign(encoded.ids.size(), of_answer.others);
  std::fill_n(encoded.weights.begin(), encoded.turns[0], record.weight);
  if (is_continued) {
    weigh_spans(record.output, of_answer.spans, encoded.weights.data() + encoded.turns[0], last);
    return encoded;
  }
  std::vector<AnswerWeights::Span> spans = of_answer.spans;
  for (AnswerWeights::Span& span : spans) {
    span.begin += prompt.size();
    span.end += prompt.size();
  }
  weigh_spans(prompt + record.output, spans, encoded.weights.data());
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

std::optional<int32_t> RecordEncoder::answer_end(const std::string& prompt_template) {
  if (!is_chat_template(prompt_template)) return std::nullopt;
  Prompt question;
  question.messages = OrderedJson::array({{{"role", "user"}, {"content", "a"}}});
  try {
    return encode_prompt(question).end;
  } catch (const LineMistake&) {  // a template may refuse chats without a system prompt
    return std::nullopt;
  }
}

void RecordEncoder::set_end(EncodedPrompt& prompt, const ChatPrompt& chat) const {
  const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
  const bool is_empty = std::all_of(chat.before.begin(), chat.before.end(), is_space);
  prompt.before = is_empty ? chat.before : tokenizer_.decode(tokenizer_.encode(chat.before));  // as answers are
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
  const bool is_chatml = prompt_template == "chatml";
  const std::vector<std::string> parts = is_chatml ? chatml_parts(record) : chat_template().render(record);
  EncodedRecord encoded = encode_parts(parts);
  if (!is_chatml) refuse_hidden_end(parts, encoded.ids);
  if (!record.weights.empty()) encoded.weights = chat_weights(record, parts, encoded);
  if (is_chatml) {
    const auto before = int32_t(begin_text(encoded.ids));
    for (int32_t& turn : encoded.turns) turn += before;
    if (!encoded.weights.empty()) encoded.weights.insert(encoded.weights.begin(), size_t(before), record.weight);
  }
  encoded.turns = without_empty_parts(encoded.turns, encoded.ids.size());
  if (is_chatml && encoded.ids.back() != tokenizer_.end_of_text()) {
    encoded.ids.push_back(int32_t(tokenizer_.end_of_text()));
    if (!encoded.weights.empty()) encoded.weights.push_back(encoded.weights.back());
  }
  if (encoded.turns.empty()) throw LineMistake{{}, "", "the chat template writes no token of the assistant"};
  return encoded;
}

/// Error(data) if the template writes the token that ends a text, and the ids do not have it.
void RecordEncoder::refuse_hidden_end(const std::vector<std::string>& parts, const std::vector<int32_t>& ids) const {
  const auto id = int32_t(tokenizer_.end_of_text());
  if (std::ranges::find(ids, id) != ids.end()) return;
  const std::string end = tokenizer_.piece(id);
  const auto has_end = [&](const std::string& part) { return !end.empty() && part.find(end) != part.npos; };
  if (std::ranges::none_of(parts, has_end)) return;
  throw Error(ExitStatus::data, wanted_.tokenizer.string() + ": the chat template writes " + printable(end) +
                                    ", which is no token there, so that no answer would end: wanted \"normalized\": "
                                    "false of this token in added_tokens, as transformers reads it");
}

/// `encoded`: the ids of `parts`, with all turns.
std::vector<float> RecordEncoder::chat_weights(const Record& record, const std::vector<std::string>& parts,
                                               const EncodedRecord& encoded) const {
  std::vector<float> weights(encoded.ids.size(), record.weight);
  std::vector<AnswerWeights::Span> spans;  // of the whole text
  std::string text;
  size_t answer = 0;
  for (size_t i = record.prompt_messages; i < record.messages.size(); ++i) {
    const OrderedJson& message = record.messages[i];
    if (message.at("role") != "assistant") continue;
    const AnswerWeights& of_answer = record.weights.at(answer);
    const std::string& written = parts.at(2 * answer + 1);
    text += parts[2 * answer];
    std::fill(weights.begin() + encoded.turns.at(2 * answer), weights.begin() + encoded.turns.at(2 * answer + 1),
              of_answer.others);
    if (!of_answer.spans.empty()) {
      const WrittenContent place = find_content(message.at("content").get<std::string>(), written);
      for (const AnswerWeights::Span& span : of_answer.spans) {
        const size_t begin = std::max(span.begin, place.begin), end = std::min(span.end, place.end);
        const size_t offset = text.size() + size_t(place.offset);
        if (begin < end) spans.push_back({offset + begin, offset + end, span.weight});
      }
    }
    text += written;
    ++answer;
  }
  text += parts.back();
  weigh_spans(text, spans, weights.data());
  return weights;
}

/// Weights of the ids of a text: those of each span replace what they were.
void RecordEncoder::weigh_spans(const std::string& text, const std::vector<AnswerWeights::Span>& spans, float* weights,
                                int32_t before) const {
  if (spans.empty()) return;
  std::vector<std::string> parts;
  size_t done = 0;
  for (const AnswerWeights::Span& span : spans) {
    parts.push_back(text.substr(done, span.begin - done));
    parts.push_back(text.substr(span.begin, span.end - span.begin));
    done = span.end;
  }
  parts.push_back(text.substr(done));
  const std::vector<int32_t> turns = encode_parts(parts, before).turns;
  for (size_t i = 0; i < spans.size(); ++i)
    std::fill(weights + turns[2 * i], weights + turns[2 * i + 1], spans[i].weight);
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

std::vector<int32_t> RecordEncoder::encode_text(std::string_view text, int32_t before) const {
  if (before < 0) return tokenizer_.encode(text);
  std::vector<int32_t> ids;
  tokenizer_.encode_begin(text, /*more_follows=*/false, ids, before);
  return ids;
}

EncodedRecord RecordEncoder::encode_parts(const std::vector<std::string>& parts, int32_t before) const {
  std::string text;
  for (const std::string& part : parts) text += part;
  EncodedRecord encoded{encode_text(text, before), {}};
  const std::vector<int32_t>& ids = encoded.ids;
  std::vector<size_t> ends, ends_before;
  const bool is_kept = decode_with_offsets(ids, ends) == text;  // not so if the tokenizer normalizes it or adds spaces
  size_t begin = 0, bytes = 0, done = 0;
  bool are_separate = !is_kept;  // no id so far belongs to two parts, so that their ids are those of the whole
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    bytes += parts[i].size();
    if (are_separate) {
      const std::vector<int32_t> part = encode_text(parts[i], before);
      are_separate =
          part.size() <= ids.size() - done && std::equal(part.begin(), part.end(), ids.begin() + std::ptrdiff_t(done));
      if (are_separate) done += part.size();
    }
    const size_t last_turn = encoded.turns.empty() ? 0 : size_t(encoded.turns.back());
    const size_t end = is_kept ? bytes
                       : are_separate
                           ? (done == 0 ? 0 : ends[done - 1])
                           : decode_with_offsets(encode_text(text.substr(0, bytes), before), ends_before).size();
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
