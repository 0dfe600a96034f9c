// Initial weights for training, under Meta's names whatever names the files use: a run's model/, an imported model,
// plain safetensors files, or a Hugging Face model as downloaded, whose query and key rows are reordered to Meta's
// order while they are read. Loading and the checks before a run use the same rules.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/safetensors_folder.hpp"
#include "experiment/experiment.hpp"

namespace wmtp {

class InitialWeights {
 public:
  /// `weights`: a file or a folder. `model`: the shape of the model to fill; must outlive this. `token_heads`: how many
  /// are read: all, the first ones of a reference, none of a value model. Error(data) if there is nothing to read, if
  /// an adapter is next to them, or if their ShapeStatement requires unsupported features, other numbers of attention
  /// heads or a longer trunk.
  InitialWeights(std::filesystem::path weights, const ModelConfig& model, int64_t token_heads);

  struct Tensor {
    StoredTensor place;
    int64_t rotary_heads = 0;  ///< if positive, the rows are in halves order (RowOrder in tensor_stream.hpp)
    /// Reads `count` elements of the flattened tensor from element `begin` on, in Meta's order. Error(data) if it does
    /// not have a weight dtype.
    void read(int64_t begin, int64_t count, float* out) const;
  };
  /// The source of a parameter. nullopt if the files lack it and it is to be initialized: with `may_initialize`, or as
  /// part of a new head. Error(data) if it is missing otherwise or has another shape.
  std::optional<Tensor> find(const std::string& name, const std::vector<int64_t>& shape, bool may_initialize) const;
  /// Error(data) for a tensor not in `known`, unless it belongs to a head that the model does not use. Files that
  /// have no output matrix and state no shape have no such head.
  void check_names(const std::set<std::string>& known) const;

 private:
  std::optional<Tensor> lookup(const std::string& name) const;
  bool fits_chain(const std::string& name) const;

  std::filesystem::path weights_;
  const ModelConfig& model_;
  int64_t token_heads_;
  bool states_shape_;  ///< whether there is a statement, which check_stated_shape compared
  std::unique_ptr<SafetensorsFolder> files_, heads_;  ///< heads_: mtp_heads.safetensors of an exported model
  std::map<std::string, Tensor> tensors_;             ///< by Meta's name if there is one, else by the file's
};

/// Error(data) if loading the weights would fail, judging by names, shapes and the first bytes of each tensor.
void check_initial_weights(const std::filesystem::path& weights, const ModelConfig& model, int64_t token_heads);

/// The config.json (Hugging Face) or params.json that states the shape of weights: in their folder, for a file in that
/// around it. Of both, the one whose names the tensors have.
struct ShapeStatement {
  std::filesystem::path folder;
  bool is_hf;
};
std::optional<ShapeStatement> shape_statement(const std::filesystem::path& weights);

/// The model that the statement describes; `like` fills what it leaves open, all without one.
ModelConfig read_model_config(const std::filesystem::path& weights, const ModelConfig& like);

/// The shape that is stated; nullopt without a statement.
std::optional<ModelConfig> stated_shape(const std::filesystem::path& weights);

/// The longest sequence that is stated, in tokens; nullopt if none is.
std::optional<int64_t> stated_sequence_length(const std::filesystem::path& weights);

/// The token heads of weights: as their folder states, those of a file by the names of its tensors.
struct StoredHeads {
  int64_t count = 1;
  FutureHeads kind = FutureHeads::parallel;
  std::optional<std::vector<int64_t>> offsets = {};  ///< ModelConfig::future_offsets, if a shape is stated
};
/// Error(data) if there is nothing to read.
StoredHeads stored_heads(const std::filesystem::path& weights);

/// "future_offsets is [1, 2] there and [1, 3] here", of the heads that the weights and `model` have; "" without a
/// difference.
std::string offsets_difference(const std::filesystem::path& path, const ModelConfig& model);

/// Differences between the statement and `model` that no tensor reveals: positions and norms. "rope_theta is
/// 500000.0 there and 10000.0 here"
std::vector<std::string> math_differences(const std::filesystem::path& path, const ModelConfig& model);

}  // namespace wmtp
