#include "engine/prepare/record_encoder.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "core/documents/json_lines.hpp"
#include "core/tokenizer/tokenizer_files.hpp"

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
  EncodedRecord encoded{tokenizer_.before_text(), {}};
  tokenizer_.encode_begin(prompt_of(record, name), /*more_follows=*/false, encoded.ids);
  encoded.turns = {int32_t(encoded.ids.size())};
  const std::vector<int32_t> answer = tokenizer_.encode(record.output);
  encoded.ids.insert(encoded.ids.end(), answer.begin(), answer.end());
  encoded.ids.push_back(int32_t(tokenizer_.end_of_text()));
  return encoded;
}

EncodedRecord RecordEncoder::encode_chat(const Record& record, const std::string& prompt_template) {
  EncodedRecord encoded;
  if (prompt_template == "chatml") {
    encoded = encode_parts(chatml_parts(record));
    const std::vector<int32_t> begin = tokenizer_.before_text();
    encoded.ids.insert(encoded.ids.begin(), begin.begin(), begin.end());
    for (int32_t& turn : encoded.turns) turn += int32_t(begin.size());
    encoded.turns = without_empty_parts(encoded.turns, encoded.ids.size());
    if (encoded.ids.back() != tokenizer_.end_of_text()) encoded.ids.push_back(int32_t(tokenizer_.end_of_text()));
  } else {
    const TokenizerConfig& config = experiment_.data.tokenizer;
    if (config.kind != "file" || !is_tokenizer_json(config.file))
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

EncodedRecord RecordEncoder::encode_parts(const std::vector<std::string>& parts) const {
  std::string text;
  for (const std::string& part : parts) text += part;
  EncodedRecord encoded{tokenizer_.encode(text), {}};
  const std::vector<int32_t>& ids = encoded.ids;
  size_t done = 0, bytes = 0;
  bool are_separate = true;  // no id so far belongs to two parts, so that their ids are those of the whole
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    bytes += parts[i].size();
    if (are_separate) {
      const std::vector<int32_t> part = tokenizer_.encode(parts[i]);
      are_separate =
          part.size() <= ids.size() - done && std::equal(part.begin(), part.end(), ids.begin() + std::ptrdiff_t(done));
      done += are_separate ? part.size() : 0;
    }
    if (!are_separate) {
      const std::vector<int32_t> before = tokenizer_.encode(std::string_view(text).substr(0, bytes));
      const auto [end, unused] = std::mismatch(ids.begin(), ids.end(), before.begin(), before.end());
      done = size_t(end - ids.begin());
    }
    encoded.turns.push_back(int32_t(done));
  }
  return encoded;
}

}  // namespace wmtp
