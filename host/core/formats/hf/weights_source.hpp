// First weights for training, by Meta's names, whichever names the files have: a run's model/ or an imported one, plain
// safetensors files, or a Hugging Face Llama or Qwen2 as it was fetched, whose rows of queries and keys are put into
// Meta's order as they are read. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/experiment/experiment.hpp"
#include "core/formats/safetensors/safetensors_folder.hpp"

namespace wmtp {

class WeightsSource {
 public:
  /// A file or a folder. `model` is the shape that is wanted. Error(data) when there is nothing to read, when a
  /// Hugging Face folder's config.json asks for what this program does not compute, or when its heads are others than
  /// the model's, so that the same tensors would mean something else.
  WeightsSource(const std::filesystem::path& path, const ModelConfig& model);

  struct Tensor {
    TensorPlace place;
    int64_t rotary_heads = 0;  ///< where above 0 its rows lie in halves (tensor_stream.hpp)
  };
  std::optional<Tensor> find(const std::string& name) const;
  /// Of every tensor: Meta's, where the files have another one and it is known.
  std::vector<std::string> names() const;

  /// `count` elements of the flattened tensor from `begin` on, in Meta's order. Error(data) when they are no weights.
  static void read(const Tensor& tensor, int64_t begin, int64_t count, float* out);

 private:
  std::unique_ptr<SafetensorsFolder> files_, heads_;  ///< heads_: mtp_heads.safetensors beside a Hugging Face model
  std::map<std::string, Tensor> tensors_;
};

/// Whether a folder is a Hugging Face model's: config.json, and no params.json.
bool is_hf_folder(const std::filesystem::path& folder);
/// What transformers reads of a folder: model.safetensors and nothing else, or what the index names.
std::filesystem::path hf_files(const std::filesystem::path& folder);
/// The shape of an exported or foreign Hugging Face folder with the heads that lie beside it.
ModelConfig read_hf_shape(const std::filesystem::path& folder);
/// Buffers that other programs save and nobody needs: they follow from rope_theta.
bool follows_from_the_shape(const std::string& name);
/// Whether two tensors are the same to the last bit.
bool are_copies(const TensorPlace& one, const TensorPlace& other);

/// What config.json or params.json beside the weights says otherwise than `model` of positions and norms: such a model
/// takes the tensors and computes something else. "rope_theta is 500000.0 there and 10000.0 here"
std::vector<std::string> different_math(const std::filesystem::path& path, const ModelConfig& model);

}  // namespace wmtp
