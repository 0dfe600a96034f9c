// wmtp::Collectives, the collectives that a plugin may call.
// Plugins call them with values of whole sequences, which count once for each sequence group.
// Ranks first compare the operation and its size: a rank that calls a different one is reported by number, whereas Gloo
// would abort the process.
#pragma once

#include <wmtp/step.hpp>

#include "comm/torch/channels.hpp"

namespace wmtp {

class RankCollectives final : public Collectives {
 public:
  explicit RankCollectives(Channels& channels) : channels_(channels) {}
  at::Tensor sum(const at::Tensor& values) override;
  at::Tensor quantile(const at::Tensor& values, const at::Tensor& valid, double q) override;
  at::Tensor quantile_here(const at::Tensor& values, const at::Tensor& valid, double q) override;

 private:
  void check_same_call(int64_t operation, const at::Tensor& values);
  Channels& channels_;
};

}  // namespace wmtp
