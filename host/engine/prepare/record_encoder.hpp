// Encodes one record: its prompt and answer by a template of this program, or a chat by a chat template.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/experiment/experiment.hpp"
#include "core/records/chat_template.hpp"
#include "core/records/record_file.hpp"
#include "core/tokenizer/tokenizer.hpp"

namespace wmtp {

struct EncodedRecord {
  std::vector<int32_t> ids;
  /// Positions where prompts and answers begin alternately, ascending: the first answer, the prompt after it, and so on.
  std::vector<int32_t> turns;
};

class RecordEncoder {
 public:
  RecordEncoder(const Experiment& experiment, const Tokenizer& tokenizer)
      : experiment_(experiment), tokenizer_(tokenizer) {}

  /// data.template, by default "alpaca" for instructions, "none" for strings of `format` completions and preferences,
  /// "chat" for messages. A chat is encoded as a whole, as by transformers; an answer begins with the first id that
  /// differs from those of the text before it. Throws a LineMistake, or the errors of ChatTemplate.
  EncodedRecord encode(const Record& record);

 private:
  EncodedRecord encode_chat(const Record& record, const std::string& prompt_template);
  EncodedRecord encode_parts(const std::vector<std::string>& parts) const;

  const Experiment& experiment_;
  const Tokenizer& tokenizer_;
  std::unique_ptr<ChatTemplate> chat_template_;  ///< opened by the first chat
};

}  // namespace wmtp
