#include "data/torch/record_encoder.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "data/text/json_lines.hpp"
#include "tokenizer/tokenizer_files.hpp"

namespace wmtp {

namespace {

/// An instruction and its answer as a chat.
Record as_chat(Record record) {
  const std::string question = record.instruction + (record.input.empty() ? "" : "\n\n" + record.input);
  record.messages = {{{"role", "user"}, {"content", question}}, {{"role", "assistant"}, {"content", record.output}}};
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

EncodedRecord RecordEncoder::encode(const Record& record) {
  const bool is_chat = record.messages.is_array();
  std::string name = experiment_.data.prompt_template;
  if (name.empty()) name = is_chat ? "chat" : record.has_whole_prompt ? "none" : "alpaca";
  if (name == "chat" || name == "chatml") return encode_chat(is_chat ? record : as_chat(record), name);
  if (is_chat)
    throw Error(ExitStatus::data,
                "records of messages need data.template = \"chat\", the tokenizer's chat template, or "
                "\"chatml\"; found \"" +
                    name + "\"");
  EncodedRecord encoded{tokenizer_.encode(format_prompt(record, name)), {}};
  encoded.turns = {int32_t(encoded.ids.size())};
  const std::vector<int32_t> answer = tokenizer_.encode(record.output);
  encoded.ids.insert(encoded.ids.end(), answer.begin(), answer.end());
  const auto end_of_text = int32_t(tokenizer_.end_of_text());
  if (answer.empty() || answer.back() != end_of_text) encoded.ids.push_back(end_of_text);
  begin_text(encoded);
  return encoded;
}

void RecordEncoder::begin_text(EncodedRecord& encoded) const {
  const std::vector<int32_t> before = tokenizer_.missing_prefix_ids(encoded.ids);
  encoded.ids.insert(encoded.ids.begin(), before.begin(), before.end());
  for (int32_t& turn : encoded.turns) turn += int32_t(before.size());
}

EncodedRecord RecordEncoder::encode_chat(const Record& record, const std::string& prompt_template) {
  EncodedRecord encoded;
  if (prompt_template == "chatml") {
    encoded = encode_parts(chatml_parts(record));
    begin_text(encoded);
    encoded.turns = without_empty_parts(encoded.turns, encoded.ids.size());
    if (encoded.ids.back() != tokenizer_.end_of_text()) encoded.ids.push_back(int32_t(tokenizer_.end_of_text()));
  } else {
    const TokenizerConfig& config = experiment_.data.tokenizer;
    if (config.kind != TokenizerKind::file || !is_tokenizer_json(config.file))
      throw Error(ExitStatus::data,
                  "records of messages need a chat template: set data.tokenizer to the tokenizer.json of a model that "
                  "has one, or data.template = \"chatml\"");
    if (!chat_template_) chat_template_ = std::make_unique<ChatTemplate>(experiment_.resolve(config.file));
    encoded = encode_parts(chat_template_->render(record));
    encoded.turns = without_empty_parts(encoded.turns, encoded.ids.size());
  }
  if (encoded.turns.empty()) throw LineMistake{{}, "", "the chat template writes no token of the assistant"};
  return encoded;
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
