// Numbers of one optimizer step, or of one validation, over all ranks and micro-batches. StepCounts: the denominators
// of every loss, counted before the first micro-batch. StepTotals: sums that stay tensors during the micro-batches, are
// added over ranks in one exchange, and are read once.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comm/torch/channels.hpp"
#include "data/torch/batches.hpp"

namespace wmtp {

struct StepCounts {
  std::vector<int64_t> targets;  ///< [H] valid targets of each head
  int64_t tokens = 0;            ///< excluding padding
  int64_t answer_tokens = 0;     ///< of kind "answer"
  int64_t pairs = 0;
  int64_t attended_keys = 0;  ///< as in MicroBatch
  int64_t positions = 0;      ///< including padding

  /// A mean over heads is over these: a head without a target has no loss.
  int64_t heads_with_targets() const {
    return std::count_if(targets.begin(), targets.end(), [](int64_t count) { return count > 0; });
  }
};

/// Sums over ranks. `also`: additional numbers, replaced by their sums over ranks in the same exchange. [all ranks,
/// collective]
StepCounts count_over_ranks(const std::vector<MicroBatch>& micros, Channels& channels, const std::string& what,
                            std::vector<double>* also = nullptr);

class StepTotals {
 public:
  /// `is_first`: whether this rank is the first of its sequence group.
  explicit StepTotals(bool is_first = true) : is_first_(is_first) {}
  /// Adds a scalar of any dtype and device to a named sum.
  void add(const std::string& name, const at::Tensor& value);
  void add(const std::string& name, double value);
  /// Adds a scalar that every rank of a sequence group has, once for the group.
  void add_once(const std::string& name, const at::Tensor& value);

  /// Call before sum() and value_on_rank(). Error(plugin) if ranks have different names. [all ranks, collective]
  void exchange(Channels& channels);
  /// Totals with this rank's values of these names, before an exchange.
  StepTotals values_of(const std::vector<std::string>& names) const;
  double sum(const std::string& name) const;
  double value_on_rank(const std::string& name, int rank) const;
  bool has(const std::string& name) const { return values_.count(name) != 0; }
  std::vector<std::string> names_with(const std::string& prefix) const;

  /// A plugin's metric: sum over count, over all ranks and micro-batches; NaN if the count is 0.
  void add_plugin_metric(const std::string& name, const at::Tensor& sum, const at::Tensor& count);
  /// The same for a metric that every rank of a sequence group reports, once for the group.
  void add_plugin_metric_once(const std::string& name, const at::Tensor& sum, const at::Tensor& count);
  std::map<std::string, double> plugin_metrics() const;

 private:
  bool is_first_;
  std::map<std::string, at::Tensor> values_;  ///< fp64 scalars
  std::map<std::string, int64_t> column_;
  at::Tensor all_;  ///< [W, names] after the exchange
};

}  // namespace wmtp
