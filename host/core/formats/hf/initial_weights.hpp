// Initial weights for training, under Meta's names whatever names the files use: a run's model/, an imported model,
// plain safetensors files, or a Hugging Face model as downloaded, whose rows of queries and keys are put into
// Meta's order as they are read. Loading and the checks before a run use the same rules.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/experiment/experiment.hpp"
#include "core/formats/safetensors/safetensors_folder.hpp"

namespace wmtp {

class InitialWeights {
 public:
  /// `weights`: a file or a folder. `model`: the shape of the model to fill; must outlive this. `token_heads`: all of
  /// them, 1 for a reference, 0 for a value model. Error(data) if there is nothing to read, or if the config.json of a
  /// Hugging Face folder asks for something that this program does not compute or for other numbers of attention heads.
  InitialWeights(std::filesystem::path weights, const ModelConfig& model, int64_t token_heads);

  struct Tensor {
    TensorPlace place;
    int64_t rotary_heads = 0;  ///< if positive, the rows are in RowOrder "halves" (tensor_stream.hpp)
    /// Reads `count` elements of the flattened tensor from element `begin` on, in Meta's order. Error(data) if the
    /// dtype is not a weight dtype.
    void read(int64_t begin, int64_t count, float* out) const;
  };
  /// The source of a parameter. Nothing if the files lack it and it is to be initialized: with `may_initialize`, or as
  /// part of a new head. Error(data) if it is missing otherwise, or has another shape.
  std::optional<Tensor> find(const std::string& name, const std::vector<int64_t>& shape, bool may_initialize) const;
  /// Error(data) for a tensor outside `known`, unless it belongs to a head that the model does not use.
  void check_names(const std::set<std::string>& known) const;

 private:
  std::optional<Tensor> lookup(const std::string& name) const;

  std::filesystem::path weights_;
  const ModelConfig& model_;
  int64_t token_heads_;
  std::unique_ptr<SafetensorsFolder> files_, heads_;  ///< heads_: mtp_heads.safetensors of an exported model
  std::map<std::string, Tensor> tensors_;             ///< by Meta's name where known, else by the file's
};

/// Error(data) if loading the weights would fail, judged by names and shapes only.
void check_initial_weights(const std::filesystem::path& weights, const ModelConfig& model, int64_t token_heads);

/// The model that config.json or params.json in the folder of the weights describes; `like` where they say nothing.
ModelConfig model_config_of(const std::filesystem::path& folder, const ModelConfig& like);

/// Differences between the weights' config and `model` that no tensor shows: positions and norms.
/// "rope_theta is 500000.0 there and 10000.0 here"
std::vector<std::string> math_differences(const std::filesystem::path& path, const ModelConfig& model);

}  // namespace wmtp
