// Totals of one optimizer step: sums that are kept as tensors while micro-batches run, added over all ranks in one
// exchange, and read by the host once.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <vector>

#include "engine/comm/channels.hpp"

namespace wmtp {

class StepTotals {
 public:
  /// Adds a scalar of any dtype and device to a named sum.
  void add(const std::string& name, const at::Tensor& value);
  void add(const std::string& name, double value);

  /// [all ranks, collective] Afterwards sum() and of_rank() answer. The ranks must hold the same names.
  void exchange(Channels& channels);
  double sum(const std::string& name) const;
  double of_rank(const std::string& name, int rank) const;
  bool has(const std::string& name) const { return values_.count(name) != 0; }
  std::vector<std::string> names_with(const std::string& prefix) const;

  /// What a plugin reports: a metric is sum over count, over all ranks and micro-batches; NaN when nothing was counted.
  void add_plugin_metric(const std::string& name, const at::Tensor& sum, const at::Tensor& count);
  std::map<std::string, double> plugin_metrics() const;

 private:
  std::map<std::string, at::Tensor> values_;  ///< fp64 scalars
  std::map<std::string, int64_t> column_;
  at::Tensor all_;  ///< [W, names] after the exchange
};

}  // namespace wmtp
