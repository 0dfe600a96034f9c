#include "huggingface/eagle_export.hpp"

#include <functional>
#include <vector>

#include "base/files.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/safetensors/number_formats.hpp"
#include "checkpoint/tensor_check.hpp"
#include "checkpoint/verify.hpp"
#include "experiment/model_config.hpp"
#include "huggingface/hf_config.hpp"
#include "huggingface/params_file.hpp"
#include "huggingface/tensor_stream.hpp"
#include "io/durable_file.hpp"
#include "model/model_tensors.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

/// A tensor of the draft, written row by row.
struct DraftTensor {
  TensorEntry entry;
  std::function<void(int64_t row, float* out)> read;  ///< out: zeros
};

class Draft {
 public:
  Draft(const ModelConfig& model, const SafetensorsFolder& files, const std::string& dtype)
      : model_(model), files_(files), dtype_(dtype) {}

  std::vector<DraftTensor> tensors() {
    const std::string head = head_block_name(model_, 2);
    add("fc.weight", {model_.dim, 3 * model_.dim},
        [dim = model_.dim](int64_t row, float* out) { out[2 * dim + row] = 1; });
    add("midlayer.input_layernorm.weight", {model_.dim}, [](int64_t, float* out) { *out = 1; });  // of the embedding
    for (const BlockLayer& layer : block_layers(model_, head)) copy_layer(head, layer);
    copy("norm.weight", "norm.weight", {model_.dim});
    copy(model_.tie_word_embeddings ? embedding_weight : output_weight, "lm_head.weight",
         {model_.vocab_size, model_.dim});
    return std::move(tensors_);
  }

 private:
  static int64_t row_size(const std::vector<int64_t>& shape) { return shape.size() == 1 ? 1 : shape[1]; }

  void add(const std::string& name, std::vector<int64_t> shape, std::function<void(int64_t, float*)> read) {
    tensors_.push_back({{name, dtype_, std::move(shape)}, std::move(read)});
  }

  void copy(const std::string& from, const std::string& to, const std::vector<int64_t>& shape, int64_t zeros = 0,
            int64_t rotary_heads = 0) {
    const StoredTensor place = *files_.find(from);
    const int64_t size = row_size(shape), head_rows = rotary_heads > 0 ? shape[0] / rotary_heads : 0;
    std::vector<int64_t> widened = shape;
    if (zeros > 0) widened[1] += zeros;
    add(to, widened, [=](int64_t row, float* out) {
      // Halves order from pairs order.
      const int64_t in_head = head_rows > 0 ? row % head_rows : 0, half = head_rows / 2;
      const int64_t pair_row = head_rows > 0 ? in_head % half * 2 + in_head / half : 0;
      place.read((head_rows > 0 ? row - in_head + pair_row : row) * size, size, out + zeros);
    });
  }

  void copy_layer(const std::string& head, const BlockLayer& layer) {
    const bool reads_both = layer.layer == Layer::wq || layer.layer == Layer::wk || layer.layer == Layer::wv;
    const std::string name = layer.layer == Layer::attention_norm ? "hidden_norm" : std::string(layer.hf_name);
    const auto shape = layer.is_linear() ? std::vector{layer.out, layer.in} : std::vector{layer.out};
    copy(head + "." + std::string(layer.name) + ".weight", "midlayer." + name + ".weight", shape,
         reads_both ? model_.dim : 0, layer.rotary_heads);
  }

  const ModelConfig& model_;
  const SafetensorsFolder& files_;
  const std::string& dtype_;
  std::vector<DraftTensor> tensors_;
};

void write(const std::vector<DraftTensor>& tensors, const fs::path& file) {
  std::vector<TensorEntry> entries;
  for (const DraftTensor& tensor : tensors) entries.push_back(tensor.entry);
  SafetensorsWriter writer(file, entries, {{"format", "pt"}});
  for (const DraftTensor& tensor : tensors) {
    const std::vector<int64_t>& shape = tensor.entry.shape;
    const auto size = size_t(shape.size() == 1 ? 1 : shape[1]);
    std::vector<uint16_t> rounded(size);
    for (int64_t row = 0; row < shape[0]; ++row) {
      std::vector<float> values(size, 0.0f);
      tensor.read(row, values.data());
      const bool is_bf16 = tensor.entry.dtype == "BF16";
      if (is_bf16) to_bf16(values.data(), int64_t(size), rounded.data());
      const size_t bytes = size * (is_bf16 ? sizeof(uint16_t) : sizeof(float));
      writer.write(tensor.entry.name, row * int64_t(bytes),
                   is_bf16 ? static_cast<const void*>(rounded.data()) : values.data(), bytes);
    }
  }
  writer.finish();
}

Json draft_config(const SavedShape& saved, const std::string& dtype) {
  const int64_t last = num_trunk_blocks(saved.model);  // the target's last block
  Json config = hf_config_json(saved.model, dtype);
  config["architectures"] = {"LlamaForCausalLMEagle3"};
  config["num_hidden_layers"] = 1;
  config["draft_vocab_size"] = saved.model.vocab_size;
  config["target_hidden_size"] = saved.model.dim;
  config["tie_word_embeddings"] = false;
  config["norm_before_residual"] = false;
  config["bos_token_id"] = saved.bos_token_id;
  config["eos_token_id"] = saved.eos_token_id;
  // vLLM names a hidden state by the block that reads it, SGLang by the block that writes it.
  config["eagle_aux_hidden_state_layer_ids"] = {last - 2, last - 1, last};
  config["eagle_config"] = {{"use_aux_hidden_state", true},
                            {"eagle_aux_hidden_state_layer_ids", {last - 3, last - 2, last - 1}}};
  return config;
}

/// Every tensor of the model exists, with its shape.
void check_tensors(const ModelExport& request, const ModelConfig& model, const SafetensorsFolder& files) {
  TensorCheck check(files);
  for (const ModelTensor& tensor : model_tensors(model)) check.take(tensor.name, tensor.shape);
  refuse_tensors(request.model.string(), check.mistakes(),
                 "specify a complete model: a run's model folder, or an imported one");
}

}  // namespace

int64_t export_eagle(const ModelExport& request) {
  const SafetensorsFolder files(request.model);
  SavedShape saved = read_params(request.model, files);
  const ModelConfig& model = saved.model;
  const auto refuse = [&](const std::string& found) {
    throw Error(ExitStatus::usage, request.model.string() + ": found " + found +
                                       ", wanted a Llama with two or more parallel heads, the second of which predicts "
                                       "the token after the next: EAGLE-3's format has no other model whose draft is "
                                       "head 2");
  };
  if (model.future_tokens < 2) refuse("one head");
  if (has_chained_heads(model)) refuse(std::string(to_string(model.future_heads)) + " heads");
  if (future_offset(model.future_offsets, 2) != 2)
    refuse("future_offsets " + offsets_text(model.future_offsets, model.future_tokens));
  if (num_trunk_blocks(model) < 2) refuse("fewer than two blocks below the heads, too few for three hidden states");
  for_each_shape_option(model, [&](const ShapeOption& option, const auto& value) {
    const std::string name = option.name;
    if (value && name != "head_dim" && name != "tie_word_embeddings") refuse(name);
  });
  check_tensors(request, model, files);
  if (is_there(request.model / manifest_file_name)) verify_checkpoint(request.model);
  if (!saved.has_max_sequence_length) saved.model.max_sequence_length = default_sequence_length;
  OutputFolder product(request.target);
  write(Draft(model, files, request.dtype).tensors(), product.path() / hf_model_name);
  write_new_file(product.path() / hf_config_name, pretty_json(draft_config(saved, request.dtype)));
  product.publish();
  return model.future_tokens;
}

}  // namespace wmtp
