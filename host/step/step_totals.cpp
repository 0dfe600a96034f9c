#include "step/step_totals.hpp"

#include <cmath>

#include "base/error.hpp"
#include "base/random.hpp"

namespace wmtp {
namespace {

/// Copies scalars [n] from any device to the CPU; the host waits for the device once.
at::Tensor on_cpu(const std::vector<at::Tensor>& values) {
  at::Tensor all = at::empty({int64_t(values.size())}, at::kDouble);
  std::vector<at::Tensor> elsewhere;
  std::vector<int64_t> columns;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].is_meta()) {
      all.mutable_data_ptr<double>()[i] = 0;
    } else if (values[i].is_cpu()) {
      all.mutable_data_ptr<double>()[i] = *values[i].const_data_ptr<double>();
    } else {
      elsewhere.push_back(values[i]);
      columns.push_back(int64_t(i));
    }
  }
  if (elsewhere.empty()) return all;
  const at::Tensor copied = at::empty({int64_t(elsewhere.size())}, at::TensorOptions(at::kDouble).pinned_memory(true));
  all.index_copy_(0, at::tensor(columns), copied.copy_(at::stack(elsewhere)));
  return all;
}

}  // namespace

StepCounts count_over_ranks(const std::vector<MicroBatch>& micros, Channels& channels, const std::string& what,
                            std::vector<double>* also) {
  const size_t heads = micros.front().counts.size();
  std::vector<double> mine(heads + 5, 0.0);
  const bool is_first = channels.same_sequences_group().rank == 0;  // the others have the same sequences
  for (const MicroBatch& micro : micros) {
    if (!is_first) break;
    for (size_t k = 0; k < heads; ++k) mine[k] += double(micro.counts[k]);
    mine[heads] += double(micro.tokens);
    mine[heads + 1] += double(micro.answer_tokens);
    mine[heads + 2] += double(micro.pairs);
    mine[heads + 3] += double(micro.attended_keys);
    mine[heads + 4] += double(micro.batch.tokens.numel());
  }
  if (also) mine.insert(mine.end(), also->begin(), also->end());
  const at::Tensor all = channels.sum(at::tensor(mine, at::kDouble), what).contiguous();
  const double* sums = all.const_data_ptr<double>();
  if (also) also->assign(sums + heads + 5, sums + mine.size());
  const auto count = [&](size_t i) { return int64_t(sums[heads + i]); };
  return {{sums, sums + heads}, count(0), count(1), count(2), count(3), count(4)};
}

void StepTotals::add(const std::string& name, const at::Tensor& value) {
  const at::Tensor wide = value.detach().to(at::kDouble, /*non_blocking=*/false, /*copy=*/true).reshape({});
  const auto [place, fresh] = values_.try_emplace(name, wide);
  if (!fresh) place->second = place->second + wide;
}

void StepTotals::add(const std::string& name, double value) { add(name, at::scalar_tensor(value, at::kDouble)); }

void StepTotals::add_once(const std::string& name, const at::Tensor& value) {
  if (is_first_)
    add(name, value);
  else
    add(name, 0.0);  // all ranks exchange the same names
}

void StepTotals::exchange(Channels& channels) {
  std::vector<at::Tensor> values;
  std::string names;
  for (const auto& [name, value] : values_) {
    column_[name] = int64_t(values.size());
    values.push_back(value);
    names += name + "\n";
  }
  if (channels.size() > 1) {  // a rank with different names would send a different size, and Gloo would abort
    const at::Tensor mine = at::tensor({int64_t(values.size()), int64_t(name_key(names, 0))}, at::kLong);
    const at::Tensor all = channels.all_gather(mine, "agreeing on the step's metrics");
    for (int rank = 0; rank < channels.size(); ++rank)
      if (!all[rank].equal(mine))
        throw Error(ExitStatus::plugin, "plugin: rank " + std::to_string(rank) +
                                            " reports different metrics than rank " + std::to_string(channels.rank()) +
                                            "; every rank must report the same names in every step");
  }
  all_ = channels.all_gather(on_cpu(values), "reducing the step's totals").contiguous();
}

StepTotals StepTotals::values_of(const std::vector<std::string>& names) const {
  StepTotals some(is_first_);
  for (const std::string& name : names) some.values_[name] = values_.at(name);
  return some;
}

double StepTotals::value_on_rank(const std::string& name, int rank) const {
  return all_.const_data_ptr<double>()[int64_t(rank) * all_.size(1) + column_.at(name)];
}

double StepTotals::sum(const std::string& name) const {
  double sum = 0;
  for (int rank = 0; rank < all_.size(0); ++rank) sum += value_on_rank(name, rank);
  return sum;
}

void StepTotals::add_plugin_metric(const std::string& name, const at::Tensor& sum, const at::Tensor& count) {
  add("plugin_sum/" + name, sum);
  add("plugin_count/" + name, count);
}

void StepTotals::add_plugin_metric_once(const std::string& name, const at::Tensor& sum, const at::Tensor& count) {
  add_once("plugin_sum/" + name, sum);
  add_once("plugin_count/" + name, count);
}

std::map<std::string, double> StepTotals::plugin_metrics() const {
  std::map<std::string, double> metrics;
  for (const std::string& name : names_with("plugin_sum/")) {
    const double count = sum("plugin_count/" + name);
    metrics[name] = count == 0 ? std::nan("") : sum("plugin_sum/" + name) / count;
  }
  return metrics;
}

std::vector<std::string> StepTotals::names_with(const std::string& prefix) const {
  std::vector<std::string> names;
  for (auto place = values_.lower_bound(prefix); place != values_.end() && place->first.starts_with(prefix); ++place)
    names.push_back(place->first.substr(prefix.size()));
  return names;
}

}  // namespace wmtp
