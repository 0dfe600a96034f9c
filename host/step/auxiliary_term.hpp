// AuxiliaryTerm: the auxiliary loss of one head's tokens in a micro-batch. The linear cross entropy calls it with each
// chunk's logits, whose gradient by the plugin's loss it adds to its own.
#pragma once

#include <optional>

#include "model/torch/linear_cross_entropy.hpp"
#include "shard/sharded_model.hpp"
#include "step/active_pipeline.hpp"
#include "step/head_rows.hpp"

namespace wmtp {

class AuxiliaryTerm {
 public:
  /// The loss of each row is multiplied by `coefficient`, its gradient also by `factor`. `policy`: its output layer,
  /// which must be gathered. All arguments must outlive this object. [all ranks, collective]
  AuxiliaryTerm(const ActiveAuxiliaryLoss& auxiliary, const HeadRows& rows, const LinearCrossEntropy& policy,
                double coefficient, double factor);

  /// Keeps what later heads need of head 1, hidden [B,L,D]. [sequence group, collective]
  static void keep_head_1(const ActiveAuxiliaryLoss& auxiliary, MicroBatchContext& step, const ShardedModel& model,
                          const at::Tensor& hidden);

  /// As LinearCrossEntropy::Addition.
  at::Tensor gradient(const at::Tensor& logits, int64_t begin, int64_t n);
  /// Adds the losses of all chunks to the step's totals.
  void add_to_totals();

 private:
  const ActiveAuxiliaryLoss& auxiliary_;
  const HeadRows& rows_;
  const LinearCrossEntropy& policy_;
  double coefficient_, factor_;
  std::optional<GatherScope> reference_output_;
  at::Tensor reference_hidden_, head_1_hidden_;  ///< [N,D], or undefined
  at::Tensor sum_;                               ///< of the losses, fp64
  bool called_ = false;
};

}  // namespace wmtp
