// TextModel: a model, a Hugging Face model or a complete checkpoint, with its tokenizer, unsharded on the CPU, for
// generating and scoring text.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/torch/model_files.hpp"
#include "comm/torch/single_rank.hpp"
#include "data/torch/record_encoder.hpp"
#include "inference/answer_text.hpp"
#include "inference/decode.hpp"
#include "shard/sharded_model.hpp"
#include "tokenizer/tokenizer.hpp"

namespace wmtp {

struct TextPrompt {
  std::vector<int64_t> ids;
  std::vector<int64_t> ends;  ///< the ids that end the answer
  AnswerLimits limits;
};

class TextModel {
 public:
  /// Reads the shape and the tokenizer; load() reads the weights. Error(data) if the folder is damaged, has no token
  /// heads, or names a tokenizer that does not fit.
  explicit TextModel(std::filesystem::path folder);

  const ModelConfig& config() const { return config_; }
  /// Null if the model names none.
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }
  /// The ids that end a text: the tokenizer's, and end_tokens() of the folder.
  const std::vector<int64_t>& ends() const { return ends_; }
  /// At least one id, with the ids that begin a text unless it begins with them. Error(usage) for a text that the
  /// tokenizer rejects, Error(data) without a tokenizer.
  std::vector<int64_t> encode_prompt(const std::string& text) const;
  /// A prompt by a template (AnswerRequest::prompt_template); after the answer come the ends of the template
  /// and of the model. Error(usage) for a chat that the template refuses, Error(data) without a tokenizer or template.
  TextPrompt encode_prompt(const Prompt& asked, const std::string& prompt_template);
  /// Whether a prompt of `tokens` fits the model. A model without max_sequence_length accepts any.
  bool fits(int64_t tokens) const;
  /// The number of positions needed for a prompt and `max_tokens` more, the last of which needs none.
  int64_t positions_for(int64_t prompt, int64_t max_tokens) const;

  /// Loads the weights: with `drafts` of all heads, else of head 1. `texts` and `weights`: see CachedModel.
  void load(bool drafts, int64_t positions, int64_t texts = 1, at::ScalarType weights = at::kFloat);
  int64_t num_heads() const { return cached_->num_heads(); }
  ShardedModel& model() { return *model_; }  ///< [loaded in fp32]
  Channels& channels() { return rank_.channels; }
  /// Starts from an empty context. [loaded]
  Decoded decode(const DecodeRequest& request);
  /// See decode.hpp. [loaded without drafts]
  std::vector<Decoded> decode_all(const std::vector<DecodeRequest>& requests, const std::function<void()>& on_decoded);

 private:
  /// `hint`: what else the user can do.
  void refuse_without_tokenizer(const std::string& hint = "") const;

  std::filesystem::path folder_;
  ModelConfig config_;
  ModelTokenizer named_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<int64_t> ends_;
  std::unique_ptr<RecordEncoder> encoder_;  ///< of the first prompt by a template
  SingleRank rank_;
  std::unique_ptr<ShardedModel> model_;
  std::unique_ptr<CachedModel> cached_;
};

}  // namespace wmtp
