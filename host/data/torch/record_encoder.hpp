// Encodes one record: its prompt and answer by a template of this program, or a chat by a chat template.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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
  std::vector<float> weights = {};  ///< of each id; empty if the record's were not read
};

/// The prompt for an answer, and what ends the answer besides the tokens that end every text.
struct EncodedPrompt {
  std::vector<int32_t> ids;
  std::optional<int32_t> end;  ///< the special token that the template writes after an answer
  std::string stop;            ///< the text that it writes there instead of one; "" if it writes none
  std::string before, after;   ///< spaces that it writes before and after the content of the answer
};

struct RecordTemplate {
  std::string name;                 ///< one of prompt_templates(); "": by the format of each record
  std::filesystem::path tokenizer;  ///< the tokenizer.json with the chat template in its folder; "" if there is none
  TemplateSetting where = TemplateSetting::experiment;
};
/// As an experiment sets it.
RecordTemplate record_template(const Experiment& experiment);

class RecordEncoder {
 public:
  RecordEncoder(RecordTemplate wanted, const Tokenizer& tokenizer)
      : wanted_(std::move(wanted)), tokenizer_(tokenizer) {}

  /// data.template, by default "alpaca" for instructions, "none" for strings of `format` completions and preferences,
  /// "chat" for messages. An answer to a string begins with a token of its own, which continues the prompt's text. A
  /// chat is encoded as a whole; as in transformers, every token that has a character of an answer belongs to it, and
  /// so to a span of weights. Throws a LineMistake, or the errors of ChatTemplate.
  EncodedRecord encode(const Record& record);
  /// The ids that encode() would make of a record up to an answer that follows it, unless a token spans both; as in
  /// transformers, that answer's text then begins with a token of its own. Only for messages of one user, "alpaca",
  /// "plain" and "none" encode messages. Throws the same.
  EncodedPrompt encode_prompt(const Prompt& asked);
  /// The special token that a template of chats writes after an answer, as of encode_prompt(); nullopt if it writes
  /// none, or no such chat. Errors of ChatTemplate.
  std::optional<int32_t> answer_end(const std::string& prompt_template);
  /// The template of this prompt: data.template, or by its format.
  std::string template_of(const Prompt& prompt) const;
  /// Of the encoded records.
  ChatTemplate::LeftOut left_out() const {
    return chat_template_ ? chat_template_->left_out() : ChatTemplate::LeftOut();
  }

 private:
  EncodedRecord encode_chat(const Record& record, const std::string& prompt_template);
  EncodedRecord encode_strings(const std::string& prompt, const Record& record) const;
  /// `before`: the last id of the text that the parts continue; -1: none.
  EncodedRecord encode_parts(const std::vector<std::string>& parts, int32_t before = -1) const;
  std::vector<int32_t> encode_text(std::string_view text, int32_t before) const;
  std::vector<float> chat_weights(const Record& record, const std::vector<std::string>& parts,
                                  const EncodedRecord& encoded) const;
  void weigh_spans(const std::string& text, const std::vector<AnswerWeights::Span>& spans, float* weights,
                   int32_t before = -1) const;
  ChatTemplate& chat_template();
  void refuse_hidden_end(const std::vector<std::string>& parts, const std::vector<int32_t>& ids) const;
  void set_end(EncodedPrompt& prompt, const ChatPrompt& chat) const;
  /// The text that the ids stand for, and where the text of each id ends in it.
  std::string decode_with_offsets(const std::vector<int32_t>& ids, std::vector<size_t>& ends) const;
  /// Inserts what is missing before a text; returns the number of ids.
  size_t begin_text(std::vector<int32_t>& ids) const;

  RecordTemplate wanted_;
  const Tokenizer& tokenizer_;
  std::unique_ptr<ChatTemplate> chat_template_;  ///< opened by the first chat
};

}  // namespace wmtp
