// MicroBatchContext: the state of one micro-batch on its way through the model: its data, the signals of frozen models,
// and the pipeline's results. It is passed to every function that works on the micro-batch, so that several can be in
// flight. The steps that a plugin receives are views of it (step_views.hpp).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>
#include <wmtp/pipeline.hpp>

#include "model/torch/row_ops.hpp"
#include "shard/sequence_split.hpp"
#include "step/rank_collectives.hpp"
#include "step/step_totals.hpp"

namespace wmtp {

/// The data available in one call of the pipeline.
struct WeighContext {
  When when = When::before;
  int64_t head = 0;         ///< 1-based, at token and head
  at::Tensor valid;         ///< [n] at token, [B,S] at head, [B,S,H] otherwise
  Scores policy = {};       ///< like valid, 0 where not valid; undefined if not read, or before the heads
  int64_t chunk_begin = 0;  ///< token: first row of the chunk
  at::Tensor rows = {};     ///< token: indices of the rows in the flattened [B, sources.count]; undefined: all
  Positions sources = {};   ///< token: this rank's positions with a target
};

class FrozenModel;
class PreviousLosses;

/// Common to all micro-batches of a run.
struct RunContext {
  int64_t heads = 1;
  int64_t vocab_size = 0;
  int64_t seed = 0;
  int64_t total_steps = 0;
  Collectives& collectives;
  std::map<std::string, at::Tensor>& pipeline_state;  ///< what the plugin keeps between steps, by name
  std::function<FrozenModel&()> reference = {};       ///< whose logits an auxiliary loss reads
};

/// Common to the micro-batches of one optimizer step, or of one validation.
struct StepContext {
  int64_t number = 0;  ///< optimizer step, from 1; where nothing is trained, the last complete one, or 0
  const StepCounts& counts;
  StepTotals& totals;
  bool counts_selections = false;         ///< whether the host waits for a device to count the tokens with a weight
  at::Tensor weight_sums = {};            ///< [H] over all ranks and micro-batches; undefined: there is one micro-batch
  bool compares_heads = false;            ///< whether the heads' gradients are compared (head_products.hpp)
  PreviousLosses* kept_losses = nullptr;  ///< keeps the step's losses for later ones; null: nobody will read them
};

/// Tensors that a plugin may read and the host goes on using: whether the plugin has written into one. On the CPU the
/// values are compared by checksum, which also finds writes through a pointer; elsewhere only by LibTorch's count of
/// writes, without waiting for the device.
class GivenTensors {
 public:
  /// An undefined tensor is left out.
  void add(const std::string& name, const at::Tensor& tensor);
  void clear() { given_.clear(); }
  /// The name of a tensor that has changed since it was added; "" if none has.
  std::string changed() const;

 private:
  struct Given {
    std::string name;
    at::Tensor tensor;
    int64_t writes;
    uint32_t sum;
  };
  std::vector<Given> given_;
};

class MicroBatchContext {
 public:
  /// `known`: by name: "reference.loss" and "reference.entropy" of the next token [B,S], or of as many heads as the
  /// policy has [B,S,H], and so of "references.NAME"; "reference.hidden" [K,B,L,D]; "value.value" [B,S]. Also
  /// "policy.previous_loss" [B,S,H] as of PreviousLosses. Everything passed by reference must outlive this object.
  MicroBatchContext(const RunContext& run_context, const StepContext& step_context, const MicroBatch& micro,
                    std::map<std::string, at::Tensor> known = {});

  const MicroBatch& micro_batch() const { return micro_; }
  const StepCounts& step_counts() const { return step_context_.counts; }
  StepTotals& totals() const { return step_context_.totals; }
  bool counts_selections() const { return step_context_.counts_selections; }
  bool compares_heads() const { return step_context_.compares_heads; }
  const at::Tensor& weight_sums() const { return step_context_.weight_sums; }
  PreviousLosses* kept_losses() const { return step_context_.kept_losses; }
  /// The policy's value heads for this micro-batch: name -> [B,S] leaf.
  void set_values(std::map<std::string, at::Tensor> leaves) { leaves_ = std::move(leaves); }
  /// The weighting's result for all heads, at When::before and When::all.
  void set_weights(Weights weights) { weights_ = std::move(weights); }
  const Weights& weights() const { return weights_; }
  /// Signal::policy_alignment of all heads, [B,S,H] by source.
  void set_alignment(at::Tensor cosines);
  /// Head 1's normed hidden states [B,L,D], for an auxiliary loss of the heads after it.
  void set_head_1(at::Tensor hidden) { head_1_ = std::move(hidden); }
  const at::Tensor& head_1() const { return head_1_; }
  /// The likeliest token of each of head 1's targets, [B,S] by source, with which those of later heads are compared.
  void set_head_1_likeliest(at::Tensor tokens) { head_1_likeliest_ = std::move(tokens); }
  FrozenModel& reference() const { return run_context_.reference(); }
  /// The reference's, [K,B,L,D].
  const at::Tensor& reference_hidden() const { return known_.at("reference.hidden"); }
  /// Call before each call of the pipeline.
  void enter(WeighContext weigh_context);
  /// Call after each call of the pipeline, which may assign anything to its state: Error(plugin) for a tensor whose
  /// values cannot be saved, and for one of the host's that it has written into.
  void leave() const;

  // Implement the plugin's steps; see wmtp/step.hpp.
  const Batch& batch() const { return micro_.batch; }
  Collectives& collectives() const { return run_context_.collectives; }
  int64_t number() const { return step_context_.number; }
  int64_t total() const { return run_context_.total_steps; }
  int64_t head() const { return weigh_context_.head; }
  int64_t heads() const { return run_context_.heads; }
  int64_t offset(int64_t head) const { return micro_.offset(head); }
  int64_t vocab_size() const { return run_context_.vocab_size; }
  When when() const { return weigh_context_.when; }
  const Tensor& valid() const { return weigh_context_.valid; }
  Tensor counts() const;
  Tensor answer_tokens() const { return at::scalar_tensor(double(step_context_.counts.answer_tokens), at::kDouble); }
  Tensor pairs() const { return at::scalar_tensor(double(step_context_.counts.pairs), at::kDouble); }
  /// Error(plugin) unless the plugin has declared it for this weigh_context.
  Tensor signal(Signal signal) const;
  Tensor signal(const ReferenceSignal& signal) const;
  Tensor value(const ValueSignal& value) const;
  Tensor leaf(const ValueSignal& value) const;
  Tensor uniform(int64_t stream) const;
  Tensor& state(const std::string& name, const Tensor& first) const;
  void metric(const std::string& name, const Tensor& sum, const Tensor& count) const;

 private:
  /// Error(plugin) unless the tensor is dense and on the CPU or the batch's device.
  void check_holds_values(const Tensor& tensor, const std::string& what) const;
  Tensor agreement() const;
  Tensor previous_loss() const;
  /// A signal of a reference or of the data, by name, aligned. Error as of signal().
  Tensor known_signal(const std::string& name) const;
  /// One of its scores that is a signal; undefined if the host has not computed it.
  const Tensor& policy_signal(Signal signal) const;
  /// [B,S] by source for the target of a head: the signal of the frozen model's head, or, of a model that predicts only
  /// the next token, its signal as much later as the head's target.
  Tensor for_head(const Tensor& signal, int64_t head) const;
  /// A signal of the reference or of the data, where head k predicts the same token; 0 where not valid, shaped like
  /// valid().
  Tensor align_to_context(const Tensor& signal) const;

  const RunContext& run_context_;
  const StepContext step_context_;
  const MicroBatch& micro_;
  /// Of frozen models and of earlier steps by source, of the data as if of the next token.
  std::map<std::string, at::Tensor> known_;
  std::map<std::string, at::Tensor> leaves_;
  Weights weights_;
  at::Tensor head_1_, head_1_likeliest_;
  WeighContext weigh_context_;
  GivenTensors given_;
};

}  // namespace wmtp
