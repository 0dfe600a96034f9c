// The host's answer to a plugin's questions that need every rank (wmtp::Across).
// Each exchange begins with a word that says what is asked and how large it is: a rank that asks something else is
// found by name, where Gloo would abort the process.
#pragma once

#include <wmtp/step.hpp>

#include "engine/comm/channels.hpp"

namespace wmtp {

class AcrossRanks final : public Across {
 public:
  explicit AcrossRanks(Channels& channels) : channels_(channels) {}
  at::Tensor sum(const at::Tensor& values) override;
  at::Tensor quantile(const at::Tensor& values, const at::Tensor& valid, double q) override;
  at::Tensor quantile_here(const at::Tensor& values, const at::Tensor& valid, double q) override;

 private:
  void agree(int64_t operation, const at::Tensor& values);
  Channels& channels_;
};

}  // namespace wmtp
