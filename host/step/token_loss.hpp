// TokenLoss: the weighted token loss of one head, from the normed hidden states to their gradient. Calls the weighting
// as soon as its inputs exist, turns weights into coefficients, and sums the logged values.
//
// A weighting called before the heads or inside the loss costs one pass over the output layer; one that needs a head's
// losses first costs an additional pass for the losses, and then gradients only for tokens with nonzero weight.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "experiment/experiment.hpp"
#include "model/torch/linear_cross_entropy.hpp"
#include "plugins/torch/boundary.hpp"
#include "shard/sharded_model.hpp"
#include "step/active_pipeline.hpp"
#include "step/auxiliary_term.hpp"
#include "step/head_rows.hpp"
#include "step/micro_batch_context.hpp"

namespace wmtp {

struct TokenLossConfig {
  bool normalize_by_weights = false;  ///< train.normalize
  int64_t chunk_tokens = 1024;
  std::vector<double> head_weights = {};                  ///< train.head_weights; empty: all 1
  std::vector<HeadWeightsPoint> head_weights_later = {};  ///< train.head_weights as points of the run
};

/// [B,S] by source, 0 where there is no target.
struct WeighedLosses {
  at::Tensor losses, weights;
};

class TokenLoss {
 public:
  /// `model` must have token heads. All arguments must outlive this object.
  TokenLoss(ShardedModel& model, ActivePipeline& pipeline, Channels& channels, const TokenLossConfig& config);

  /// Factor on all later gradients; losses are unaffected.
  void scale_gradients(double factor) { factor_ = factor; }
  double gradient_scale() const { return factor_; }

  /// When::before: calls the weighting once.
  void weigh_before_the_heads(MicroBatchContext& step);
  /// When::all: calls the weighting once, with all heads' losses. `hidden_of` returns a head's hidden states [B,L,D].
  void weigh_all(MicroBatchContext& step, const std::function<at::Tensor(int64_t head)>& hidden_of);
  /// hidden [B,L,D], normed, of this rank's L positions -> its gradient. The output layer must be gathered.
  at::Tensor gradient(MicroBatchContext& step, int64_t head, const at::Tensor& hidden);
  /// That of the mean of its losses, each with weight 1; changes neither totals nor the pipeline's state.
  at::Tensor unweighted_gradient(MicroBatchContext& step, int64_t head, const at::Tensor& hidden) const;
  /// As gradient(), for a head whose hidden states need none: the output layer's gradient, if it trains, and the
  /// totals. An auxiliary loss is left out unless the output layer trains.
  void add_loss(MicroBatchContext& step, int64_t head, const at::Tensor& hidden);
  /// A head's losses and their weights, without gradients. The output layer must be gathered.
  WeighedLosses weighed(MicroBatchContext& step, int64_t head, const at::Tensor& hidden);
  /// The sum of a head's weights over this rank's targets. `hidden` is not read at When::before, where its width may be
  /// 0.
  at::Tensor weight_sum(MicroBatchContext& step, int64_t head, const at::Tensor& hidden);
  /// A head's scores of its targets, without gradients, 0 without a target: [B,S] each.
  Scores scores(MicroBatchContext& step, int64_t head, const at::Tensor& hidden, const ScoreRequest& request) const;

  /// Error(plugin) with the position of the step's faulty weights. [after the totals showed a fault]
  void refuse_faulty_weights() const;
  void forget_weights() { checked_weights_.clear(); }

 private:
  struct Gradient {
    at::Tensor losses, weighted, d_hidden;  ///< [N], [N], [N,D]
  };

  HeadRows head_rows(MicroBatchContext& step, int64_t head, const at::Tensor& hidden) const;
  void keep_losses(const HeadRows& rows, const at::Tensor& losses) const;
  static at::Tensor hidden_gradient(at::Tensor d_rows, const HeadRows& rows, const at::Tensor& hidden);
  static void add_to_totals(const HeadRows& rows, const at::Tensor& losses, const at::Tensor& weighted);
  at::Tensor by_source(const at::Tensor& values, const HeadRows& rows) const;
  at::Tensor valid_of_all_heads(const MicroBatchContext& step) const;
  Scores by_source(Scores scores, const HeadRows& rows) const;
  ScoreRequest request() const;
  WeighContext weigh_context_after(const Scores& scores, const HeadRows& rows) const;
  Gradient gradient_after_loss_pass(const HeadRows& rows, const LinearCrossEntropy::Addition& addition);
  Gradient gradient_in_one_pass(const HeadRows& rows, const LinearCrossEntropy::Addition& addition);
  Gradient gradient_with_known_weights(const HeadRows& rows, const LinearCrossEntropy::Addition& addition);
  Weights weigh(MicroBatchContext& step, WeighContext weigh_context);
  at::Tensor weigh_rows(const HeadRows& rows, const Scores& scores);
  static at::Tensor weights_of(const HeadRows& rows, const Weights& weights);
  at::Tensor coefficients(const HeadRows& rows, const at::Tensor& weights);
  bool has_auxiliary_loss(int64_t head) const {
    return pipeline_.auxiliary_loss && pipeline_.auxiliary_loss->heads.contains(head);
  }
  double auxiliary_coefficient(const HeadRows& rows) const;
  void keep_head_1(MicroBatchContext& step, const at::Tensor& hidden) const;
  void keep_likeliest(const HeadRows& rows, const Scores& scores) const;
  std::optional<int64_t> bound_on_selected(const HeadRows& rows, const Weights& weights) const;

  ShardedModel& model_;
  ActivePipeline& pipeline_;
  Channels& channels_;
  TokenLossConfig config_;
  LinearCrossEntropy loss_;
  double factor_ = 1;
  std::vector<std::pair<WeightsCall, Weights>> checked_weights_;  ///< for the whole step
};

}  // namespace wmtp
