// Encodes one record: its prompt and answer by a template of this program, or a chat by a chat template.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/records/chat_template.hpp"
#include "data/records/record_file.hpp"
#include "experiment/experiment.hpp"
#include "tokenizer/tokenizer.hpp"

namespace wmtp {

struct EncodedRecord {
  std::vector<int32_t> ids;
  /// Positions where prompts and answers begin alternately, ascending: the first answer, the prompt after it, and so
  /// on.
  std::vector<int32_t> turns;
};

class RecordEncoder {
 public:
  RecordEncoder(const Experiment& experiment, const Tokenizer& tokenizer)
      : experiment_(experiment), tokenizer_(tokenizer) {}

  /// data.template, by default "alpaca" for instructions, "none" for strings of `format` completions and preferences,
  /// "chat" for messages. A chat is encoded as a whole; as in transformers, every token that has a character of an
  /// answer belongs to it. Throws a LineMistake, or the errors of ChatTemplate.
  EncodedRecord encode(const Record& record);

 private:
  EncodedRecord encode_chat(const Record& record, const std::string& prompt_template);
  EncodedRecord encode_parts(const std::vector<std::string>& parts) const;
  /// The text that the ids stand for, and where the text of each id ends in it.
  std::string decode_with_offsets(const std::vector<int32_t>& ids, std::vector<size_t>& ends) const;
  void begin_text(EncodedRecord& encoded) const;

  const Experiment& experiment_;
  const Tokenizer& tokenizer_;
  std::unique_ptr<ChatTemplate> chat_template_;  ///< opened by the first chat
};

}  // namespace wmtp
