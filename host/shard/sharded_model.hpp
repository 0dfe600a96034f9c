// ShardedModel: a multi-token-prediction Llama whose parameters are stored in sharded groups. Created empty, then
// filled from the seed or from files; each rank fills its own part, so no rank ever holds the whole model.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/backward_extent.hpp"
#include "model/model_tensors.hpp"
#include "model/torch/block.hpp"
#include "model/torch/parameter_layout.hpp"
#include "shard/group_exchange.hpp"
#include "shard/parameter_group.hpp"
#include "shard/sequence_split.hpp"

namespace wmtp {

/// The groups of one unit: of trained and of frozen parameters, and of both those that are whole and those that tensor
/// parallelism cuts. Each call applies to all groups in order.
class ShardUnit {
 public:
  ShardUnit(const UnitSpec& spec, const GroupOptions& options, Channels& channels);
  const std::string& name() const { return name_; }
  const std::vector<std::unique_ptr<ParameterGroup>>& groups() const { return groups_; }
  bool holds(const std::string& parameter) const;
  void start_gather();
  void finish_gather();
  void release();
  void start_reduce(bool last);
  void finish_reduce();
  void finish_replicate_reduce();
  void finish_replicate_gather();

 private:
  template <class... Args>
  void each(void (ParameterGroup::*call)(Args...), Args... args);

  std::string name_;
  std::vector<std::unique_ptr<ParameterGroup>> groups_;
};

/// Keeps a unit's weights gathered during its lifetime, and longer if the next unit is the same; else starts the gather
/// of the next one.
class GatherScope {
 public:
  explicit GatherScope(ShardUnit& unit, ShardUnit* next = nullptr) : unit_(unit), stays_(&unit == next) {
    unit_.finish_gather();
    if (next) next->start_gather();
  }
  ~GatherScope() {
    if (!stays_) unit_.release();
  }
  GatherScope(const GatherScope&) = delete;

 private:
  ShardUnit& unit_;
  bool stays_;
};

struct ShardedModelRequest {
  ModelSpec spec;
  GroupOptions options;
  int64_t sequence_length = 0;  ///< the longest, in positions
  Section section = {};         ///< the part of the model to hold; `channels` are those of its ranks
};

class ShardedModel {
 public:
  ShardedModel(const ShardedModelRequest& request, Channels& channels);

  const ModelConfig& config() const { return config_; }
  /// The compute dtype and device.
  const at::TensorOptions& compute() const { return compute_; }
  const std::vector<std::unique_ptr<ShardUnit>>& units() const { return units_; }
  /// With tied embeddings "output" is the unit tok_embeddings, and "output.weight" the parameter tok_embeddings.weight:
  /// gathered for each use, reduced once per micro-batch, after its last use.
  ShardUnit& unit(const std::string& name) const;
  /// The parameters declared by the adapter; null if none.
  ShardUnit* adapter_unit() const { return adapter_; }
  WeightHandle weight(const std::string& parameter) const;
  const Block& trunk_block(int64_t i) const { return trunk_[size_t(i - blocks_.first)]; }
  const Block& head_block(int64_t head) const { return heads_[size_t(head - 1)]; }  ///< 1-based
  /// The part of the model on this rank; elsewhere are other trunk blocks, the embedding or the heads.
  const Section& section() const { return section_; }
  const BlockRange& blocks() const { return blocks_; }          ///< of the trunk, here
  int64_t num_heads() const { return int64_t(heads_.size()); }  ///< here: all or none
  /// Whether heads here read the head before and the embedding.
  bool chains_heads() const { return has_chained_heads(config_) && num_heads() > 1; }
  /// Whether an adapter declared parameters, here or in another section.
  bool has_adapter() const { return !whole_.empty() && whole_.back().name == adapter_unit_name; }
  /// All units of the model, also those of other sections.
  const std::vector<UnitSpec>& whole() const { return whole_; }
  const std::vector<ValueHeadModule>& value_heads() const { return value_heads_; }
  const at::Tensor& rotary() const { return rotary_; }
  /// The positions that this rank has in the residual stream: blocks read and return [B,S/Q,D] for sequences of S and Q
  /// ranks that read the same ones (sequence x tensor).
  const SequenceSplit& split() const { return split_; }
  /// The ranks that have the other pieces of the embedding and the output layer; null: this rank has all of them.
  const RankExchange* vocabulary() const { return vocabulary_ ? &*vocabulary_ : nullptr; }
  ForwardContext forward_context(bool training, int64_t seed, int64_t step, const at::Tensor& sequence,
                                 const Documents& documents) const {
    return {
        training, seed, step, sequence, documents, attention_ ? &*attention_ : nullptr, tensor_ ? &*tensor_ : nullptr};
  }
  /// The forward pass of the trunk blocks here, [B,n,D]: first() with the embedding gathered if tokens are looked up
  /// here, then run(i, output before it) with each block gathered. `after`: the unit that is read next; null: none
  /// here. [all ranks of the section, collective]
  template <class First, class Run>
  at::Tensor forward_trunk(ShardUnit* after, First first, Run run) const {
    const auto unit_of = [&](int64_t i) { return i < blocks_.end ? &unit(trunk_block_name(i)) : after; };
    at::Tensor h;
    if (section_.is_first() || chains_heads()) {
      const GatherScope embedding(unit("tok_embeddings"), unit_of(blocks_.first));
      h = first();
    } else {
      if (ShardUnit* next = unit_of(blocks_.first)) next->start_gather();
      h = first();
    }
    for (int64_t i = blocks_.first; i < blocks_.end; ++i) {
      const GatherScope block(*unit_of(i), unit_of(i + 1));
      h = run(i, h);
    }
    return h;
  }
  /// [B,n] -> [B,n,D]. The embedding must be gathered.
  at::Tensor embedded(const at::Tensor& tokens) const;
  /// Applies the final norm, which must be gathered.
  at::Tensor normed(const at::Tensor& hidden) const;

  /// Initializes every parameter as a function of (seed, name, element). [as fill]
  void initialize(int64_t seed);
  /// Fills this rank's parts: read(spec, begin, count, out) writes `count` fp32 values of the flattened parameter from
  /// element `begin`, or returns false to keep the current values. Row norms that are not read are computed from the
  /// weights afterwards. `what` labels the progress line. [all ranks; collective if the adapter declares row norms]
  using ReadPart = std::function<bool(const ParameterSpec&, int64_t begin, int64_t count, float* out)>;
  void fill(const ReadPart& read, const std::string& what = "loading the model");

  /// Fingerprint of an adapter's base, the frozen parameters: the sum, mod 2^64, over all their elements, of a hash of
  /// (name, element, bits of the fp32 value last filled in). It is independent of layout and compute dtype, not of what
  /// trains. 0 if the adapter declared no parameter. [all ranks, collective]
  uint64_t base_fingerprint() const;

  std::vector<ParameterGroup*> trained_groups() const;
  /// Whether this section and another one hold the embedding, and it trains.
  bool has_twin() const { return twins_.has_value(); }
  /// Adds the gradients of both, after a step's last reduction; no effect without a twin. [the first and the last
  /// section, collective]
  void sum_over_twins();
  /// Of the whole model.
  BackwardExtent backward_extent() const;
  Channels& channels() const { return channels_; }

 private:
  /// Sets the row norms `names`, in this rank's shard, to the norms of the corresponding weights.
  void fill_row_norms(const std::set<std::string>& names);
  /// What this rank has of a parameter here.
  const ParameterPiece& piece_of(const std::string& parameter) const;
  /// The norms of this rank's rows of a gathered weight, undefined unless `wanted`. [all tensor ranks, collective]
  at::Tensor local_row_norms(const std::string& parameter, bool wanted) const;

  Channels& channels_;
  SequenceSplit split_;
  std::optional<GroupExchange> attention_, tensor_;  ///< nullopt: of this rank alone
  ModelConfig config_;
  Section section_;
  BlockRange blocks_;
  std::vector<UnitSpec> whole_;
  at::TensorOptions compute_;
  std::vector<std::unique_ptr<ShardUnit>> units_;
  std::map<std::string, WeightHandle> handles_;
  ShardUnit* adapter_ = nullptr;
  std::map<std::string, uint64_t> fingerprints_;  ///< of this rank's parts of the base model, by parameter
  int64_t token_heads_;                           ///< of the whole model
  std::vector<Block> trunk_, heads_;
  std::vector<ValueHeadModule> value_heads_;
  at::Tensor rotary_;
  std::optional<GroupExchange> twins_;       ///< nullopt: no other section holds what trains here
  std::optional<GroupExchange> vocabulary_;  ///< nullopt: no piece of it is here
};

}  // namespace wmtp
