#include "huggingface/model_import.hpp"

#include <memory>

#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/tensor_check.hpp"
#include "huggingface/hf_config.hpp"
#include "huggingface/model_export.hpp"
#include "huggingface/params_file.hpp"
#include "huggingface/peft_adapter.hpp"
#include "huggingface/tensor_stream.hpp"
#include "io/durable_file.hpp"
#include "io/input_file.hpp"
#include "model/model_tensors.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/tokenizer_export.hpp"
#include "tokenizer/tokenizer_files.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

struct Source {
  bool is_hf = false;
  std::unique_ptr<SafetensorsFolder> files;
  std::unique_ptr<SafetensorsFolder> heads;  ///< mtp_heads.safetensors of a Hugging Face folder, or null
  SavedShape saved;
};

Source open_source(const fs::path& folder) {
  Source source;
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    throw Error(ExitStatus::data, folder.string() +
                                      " is not a folder; specify one that contains config.json (Hugging Face) or "
                                      "params.json (Meta) and safetensors files");
  check_no_adapter_beside(folder);
  source.is_hf = is_hf_folder(folder);
  if (!source.is_hf && !is_there(folder / params_file_name))
    throw Error(ExitStatus::data, folder.string() +
                                      " contains neither config.json (Hugging Face) nor params.json (Meta); "
                                      "download the whole model");
  source.files = std::make_unique<SafetensorsFolder>(source.is_hf ? hf_files(folder) : folder);
  if (source.is_hf) {
    source.saved = read_hf_shape(folder);
    ExternalJson keys(folder / hf_config_name);
    source.saved.bos_token_id = read_token_ids(keys, "bos_token_id");
    source.saved.eos_token_id = read_token_ids(keys, "eos_token_id");
    keys.finish("compare it with tokenizer_config.json");
    end_tokens(folder);  // refuses what `generate` could not read
    if (is_there(folder / heads_identity_name))
      source.heads = std::make_unique<SafetensorsFolder>(folder / heads_tensors_name);
  } else {
    source.saved = read_params(folder, *source.files);
  }
  return source;
}

/// Adds the requested heads to the shape; returns how many of them must be copied.
int64_t add_heads(const ModelImport& request, ModelConfig& model) {
  if (request.future_tokens == 0 || request.future_tokens == model.future_tokens) return 0;
  if (model.future_tokens > 1)
    throw Error(ExitStatus::usage, "--future-tokens " + std::to_string(request.future_tokens) + ": " +
                                       request.source.string() + " has heads for " +
                                       std::to_string(model.future_tokens) + " future tokens; leave the option out");
  model.layers += request.future_tokens - 1;
  model.future_tokens = request.future_tokens;
  return request.future_tokens - 1;
}

class Planner {
 public:
  Planner(const Source& source, const ModelConfig& model, int64_t copies)
      : source_(source), model_(model), copies_(copies), check_(*source.files) {
    if (source.heads) heads_check_.emplace(*source.heads);
  }

  std::vector<TensorCopy> plan(const fs::path& folder) {
    for (const ModelTensor& tensor : model_tensors(model_)) add(tensor);
    add_value_heads();
    finish(folder);
    return std::move(moves_);
  }

 private:
  void add(const ModelTensor& tensor) {
    const bool extra = tensor.hf_name.empty();
    if (extra && copies_ > 0) return;  // additional targets of the last block's tensors, see below
    TensorCheck& check = extra && heads_check_ ? *heads_check_ : check_;
    const bool by_hf_name = source_.is_hf && !extra;
    const auto place = check.take(by_hf_name ? tensor.hf_name : tensor.name, tensor.shape);
    if (!place) return;
    if (!tensor.may_be_zero()) not_zero_.push_back(*place);
    TensorCopy move{*place, {{0, tensor.name}}, tensor.shape};
    const std::string last = head_block_name(model_, 1) + ".";
    for (int64_t i = 0; i < copies_ && tensor.name.starts_with(last); ++i)
      move.targets.push_back({0, "extra_heads." + std::to_string(i) + "." + tensor.name.substr(last.size())});
    if (by_hf_name) move.reorder(RowOrder::halves_to_pairs, tensor.rotary_heads, tensor.shape[0]);
    moves_.push_back(std::move(move));
  }

  bool is_in_value_head(const std::string& name) const {
    for (const Json& head : source_.saved.value_heads)
      if (name.starts_with("value_heads." + head.at("name").get<std::string>() + ".")) return true;
    return false;
  }

  void add_value_heads() {
    const SafetensorsFolder& files = source_.heads ? *source_.heads : *source_.files;
    for (const std::string& name : files.names())
      if (is_in_value_head(name)) {
        const StoredTensor place = *files.find(name);
        (source_.heads ? *heads_check_ : check_).take(name, place.entry->shape);
        moves_.push_back({place, {{0, name}}, place.entry->shape});
      }
  }

  /// If embeddings are tied, the files may contain the matrix twice; both must be equal.
  void take_tied_copy() {
    const std::string name = source_.is_hf ? hf_output_weight : output_weight;
    if (!model_.tie_word_embeddings || !source_.files->find(name)) return;
    const std::vector<int64_t> shape{model_.vocab_size, model_.dim};
    const auto copy = check_.take(name, shape);
    const auto own = source_.files->find(source_.is_hf ? hf_embedding_weight : embedding_weight);
    if (!copy || !own || own->entry->shape != shape) return;
    if (!equal_bytes(*copy, *own))
      differing_copy_ = "tensor \"" + name + "\" differs from the embedding's, and tie_word_embeddings is true";
  }

  void finish(const fs::path& folder) {
    take_tied_copy();
    check_.check_rest(is_derived_buffer);
    std::vector<std::string> mistakes = check_.mistakes();
    if (!differing_copy_.empty()) mistakes.push_back(differing_copy_);
    if (heads_check_) {
      heads_check_->check_rest();
      mistakes.insert(mistakes.end(), heads_check_->mistakes().begin(), heads_check_->mistakes().end());
    }
    refuse_tensors(folder.string(), mistakes,
                   std::string("compare the files with ") + (source_.is_hf ? hf_config_name : params_file_name));
    for (const StoredTensor& place : not_zero_) place.check_not_zero();
  }

  const Source& source_;
  const ModelConfig& model_;
  const int64_t copies_;
  TensorCheck check_;
  std::optional<TensorCheck> heads_check_;
  std::string differing_copy_;
  std::vector<TensorCopy> moves_;
  std::vector<StoredTensor> not_zero_;  ///< must not be
};

/// byte or bpe if tokenizer.json is what export_model writes for that tokenizer of this program; else none.
SavedTokenizer exported_tokenizer(const fs::path& folder) {
  const fs::path file = folder / tokenizer_json_name;
  if (!is_there(file)) return SavedTokenizer::none;
  constexpr uintmax_t longest_of_bytes = 1 << 16;  // larger ones are not parsed in vain: that takes 70 times their size
  const auto parsed = [&] { return Json::parse(read_small_file(file, max_tokenizer_bytes), nullptr, false); };
  if (fs::file_size(file) <= longest_of_bytes && parsed() == byte_tokenizer_json()) return SavedTokenizer::byte;
  if (!is_there(folder / tokenizer_model_name)) return SavedTokenizer::none;
  try {
    const auto ours = sentencepiece_tokenizer_json(folder / tokenizer_model_name);
    return ours && parsed() == *ours ? SavedTokenizer::bpe : SavedTokenizer::none;
  } catch (const Error& error) {
    if (error.status() != ExitStatus::data) throw;
    return SavedTokenizer::none;  // tokenizer.json alone may still be readable
  }
}

/// The exported tokenizer; none if its tokenizer_config.json, written with add_bos_token = false, was edited.
SavedTokenizer own_tokenizer(const fs::path& folder) {
  const SavedTokenizer exported = exported_tokenizer(folder);
  if (exported != SavedTokenizer::bpe) return exported;
  try {
    const auto config = read_tokenizer_config(folder / tokenizer_model_name);
    return config && config->add_bos_token ? SavedTokenizer::none : exported;
  } catch (const Error& error) {
    if (error.status() != ExitStatus::data) throw;
    return SavedTokenizer::none;
  }
}

/// Copies the tokenizer's files. Meta's own code prepends a BOS to every text, which none of Meta's files states.
void keep_tokenizer(const fs::path& from, SavedTokenizer kind, bool from_meta, const fs::path& to) {
  if (own_tokenizer(from) == kind && kind == SavedTokenizer::bpe)
    return write_new_file(to / tokenizer_model_name, read_small_file(from / tokenizer_model_name, max_tokenizer_bytes));
  if (kind == SavedTokenizer::tokenizer_json) copy_tokenizer_files(from / tokenizer_json_name, to);
  if (kind != SavedTokenizer::bpe) return;
  copy_tokenizer_files(from / tokenizer_model_name, to);
  if (from_meta && !is_there(to / tokenizer_config_name))
    write_new_file(to / tokenizer_config_name, llama_tokenizer_config(/*begins_texts=*/true));
}

}  // namespace

std::string find_tokenizer(const fs::path& folder, SavedShape& saved) {
  if (const SavedTokenizer own = own_tokenizer(folder); own != SavedTokenizer::none) {
    saved.tokenizer = own;
    return "";
  }
  std::string why;
  const auto is_kept = [&](const char* name, SavedTokenizer kind, const auto& read) {
    if (!is_there(folder / name)) return false;
    try {
      read(folder / name);
    } catch (const Error& error) {
      if (error.status() != ExitStatus::data) throw;
      if (why.empty()) why = error.what();
      return false;
    }
    saved.tokenizer = kind;
    return true;
  };
  const auto read_json = [&](const fs::path& file) {
    const int64_t ids = json_tokenizer(file)->vocab_size();
    if (ids > saved.model.vocab_size)
      throw Error(ExitStatus::data, file.string() + " has " + with_thousands(ids) + " ids, the model " +
                                        with_thousands(saved.model.vocab_size) + "; it belongs to another model");
  };
  const bool edited = exported_tokenizer(folder) == SavedTokenizer::bpe;  // its tokenizer.json states no BOS
  if (edited || !is_kept(tokenizer_json_name, SavedTokenizer::tokenizer_json, read_json))
    is_kept(tokenizer_model_name, SavedTokenizer::bpe, [](const fs::path& file) { read_tokenizer_config(file); });
  return why;
}

void check_texts(const fs::path& folder) {
  for (const char* name : {hf_config_name, params_file_name, tokenizer_json_name, tokenizer_model_name,
                           tokenizer_config_name, chat_template_name, generation_config_name})
    if (is_there(folder / name)) check_link_stays_inside(folder / name);
}

ImportedModel import_model(const ModelImport& request) {
  absolute_text(request.target);  // refused before anything is written
  check_texts(request.source);
  Source source = open_source(request.source);
  const int64_t copies = add_heads(request, source.saved.model);
  std::vector<TensorCopy> moves = Planner(source, source.saved.model, copies).plan(request.source);
  const SourceChecksums sums = source.is_hf ? SourceChecksums() : SourceChecksums(request.source, ManifestKind::model);
  OutputFolder product(request.target);
  Manifest manifest;
  manifest.kind = ManifestKind::model;
  manifest.slices = copy_tensors(std::move(moves), product.path(), {hf_model_name}, sums);
  // Our params.json names the tokenizer.
  const bool from_meta = !source.is_hf && source.saved.tokenizer == SavedTokenizer::none;
  const std::string left_out = find_tokenizer(request.source, source.saved);
  write_new_file(product.path() / params_file_name, params_text(source.saved));
  keep_tokenizer(request.source, source.saved.tokenizer, from_meta, product.path());
  copy_chat_files(request.source, product.path());
  write_manifest(product.path(), manifest);
  product.publish();
  return {source.saved.model, source.saved.tokenizer, left_out};
}

}  // namespace wmtp
