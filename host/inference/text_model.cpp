#include "inference/text_model.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/safetensors_folder.hpp"
#include "checkpoint/verify.hpp"
#include "data/text/json_lines.hpp"
#include "huggingface/hf_config.hpp"
#include "huggingface/model_import.hpp"
#include "huggingface/params_file.hpp"
#include "tokenizer/torch/tokenizers.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& what) { throw Error(ExitStatus::usage, what); }

ModelConfig checked_config(const fs::path& folder) {
  if (fs::exists(folder / manifest_file_name)) verify_checkpoint(folder);
  if (is_hf_folder(folder)) {
    check_texts(folder);
    return read_model_config(folder, ModelConfig{});
  }
  const SafetensorsFolder files(folder);
  if (!predicts_tokens(read_params(folder, files), files))
    throw Error(ExitStatus::data,
                folder.string() + ": the model has no token heads" +
                    (read_saved_value_heads(folder).empty() ? "" : ": it is a critic's model, which predicts values") +
                    "; wanted a model that was trained to predict tokens");
  return read_model_config(folder, ModelConfig{});
}

std::unique_ptr<Tokenizer> open_tokenizer_of(const fs::path& folder, const ModelTokenizer& named,
                                             const ModelConfig& config) {
  if (named.kind == SavedTokenizer::none) return nullptr;
  auto tokenizer = named.kind == SavedTokenizer::byte  ? byte_tokenizer()
                   : named.kind == SavedTokenizer::bpe ? sentencepiece_tokenizer(named.file)
                                                       : json_tokenizer(named.file);
  if (tokenizer->vocab_size() > config.vocab_size)
    throw Error(ExitStatus::data, folder.string() + ": its tokenizer has " + with_thousands(tokenizer->vocab_size()) +
                                      " ids, the model " + with_thousands(config.vocab_size));
  return tokenizer;
}

}  // namespace

TextModel::TextModel(fs::path folder)
    : folder_(std::move(folder)),
      config_(checked_config(folder_)),
      named_(read_model_tokenizer(folder_)),
      tokenizer_(open_tokenizer_of(folder_, named_, config_)),
      ends_(end_tokens(folder_)) {
  if (tokenizer_) ends_.push_back(tokenizer_->end_of_text());
}

void TextModel::refuse_without_tokenizer(const std::string& hint) const {
  if (tokenizer_) return;
  throw Error(ExitStatus::data,
              folder_.string() + ": the model has no tokenizer" +
                  (named_.left_out.empty() ? "" : " that this program can read (" + named_.left_out + ")") +
                  ", so text cannot be encoded; name the one that wrote its ids in [data.tokenizer] of its experiment" +
                  hint);
}

std::vector<int64_t> TextModel::encode_prompt(const std::string& text) const {
  refuse_without_tokenizer(", or pass ids: generate --ids \"1 2 3\"");
  if (text.empty()) refuse("the prompt is empty; wanted at least one character");
  const size_t valid = valid_utf8_prefix(text);
  if (tokenizer_->reads() == Tokenizer::Reads::utf8 && valid < text.size())
    refuse("the prompt is not UTF-8 at byte " + with_thousands(int64_t(valid)) +
           ", but this model's tokenizer requires UTF-8");
  const std::vector<int32_t> encoded = tokenizer_->encode(text), before = tokenizer_->missing_prefix_ids(encoded);
  std::vector<int64_t> ids(before.begin(), before.end());
  ids.insert(ids.end(), encoded.begin(), encoded.end());
  return ids;
}

TextPrompt TextModel::encode_prompt(const Prompt& asked, const std::string& prompt_template) try {
  if (asked.has_whole_prompt && asked.messages.is_null()) return {encode_prompt(asked.instruction), ends_, {}};
  if (!encoder_) {
    refuse_without_tokenizer();
    const bool is_json = named_.kind == SavedTokenizer::tokenizer_json;
    encoder_ = std::make_unique<RecordEncoder>(
        RecordTemplate{prompt_template.empty() ? named_.prompt_template : prompt_template, is_json ? named_.file : "",
                       TemplateSetting::command_line},
        *tokenizer_);
  }
  const EncodedPrompt encoded = encoder_->encode_prompt(asked);
  TextPrompt prompt{{encoded.ids.begin(), encoded.ids.end()}, ends_, {{}, encoded.before, encoded.after}};
  if (encoded.end) prompt.ends.push_back(*encoded.end);
  if (!encoded.stop.empty()) prompt.limits.stops.push_back(encoded.stop);
  return prompt;
} catch (const LineMistake& mistake) {
  refuse((mistake.field.empty() ? "" : mistake.field + ": ") + mistake.message);
}

bool TextModel::fits(int64_t tokens) const {
  return config_.max_sequence_length == 0 || tokens <= config_.max_sequence_length;
}

int64_t TextModel::positions_for(int64_t prompt, int64_t max_tokens) const {
  const int64_t most =
      config_.max_sequence_length > 0 ? config_.max_sequence_length : std::numeric_limits<int64_t>::max();
  return std::min(prompt + std::min(max_tokens, most) - 1, most);
}

void TextModel::load(bool drafts, int64_t positions, int64_t texts, at::ScalarType weights) {
  ShardedModelRequest request;
  request.spec.model = &config_;
  request.spec.heads = drafts ? Heads::all : Heads::first;
  request.options.strategy = Strategy::no_shard;
  request.sequence_length = positions;
  model_ = std::make_unique<ShardedModel>(request, rank_.channels);
  load_model(folder_, *model_);
  cached_ = std::make_unique<CachedModel>(*model_, positions, texts, weights);
  if (weights != at::kFloat) model_.reset();
}

Decoded TextModel::decode(const DecodeRequest& request) {
  cached_->shorten(0);
  return wmtp::decode(*cached_, request);
}

std::vector<Decoded> TextModel::decode_all(const std::vector<DecodeRequest>& requests,
                                           const std::function<void()>& on_decoded) {
  return wmtp::decode_all(*cached_, requests, on_decoded);
}

}  // namespace wmtp
