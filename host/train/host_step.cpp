#include "train/host_step.hpp"

#include "base/error.hpp"
#include "base/philox.hpp"

namespace wmtp {

void HostStep::begin_step(int64_t number, const StepCounts& counts, StepTotals& totals) {
  number_ = number;
  counts_ = counts;
  totals_ = &totals;
}

void HostStep::begin_micro_batch(const MicroBatch& micro, const Tensor& reference) {
  micro_ = &micro;
  reference_ = reference;
}

/// The reference predicts one token ahead: what it says about the target of head k at source s stands at source s+k-1.
Tensor HostStep::reference_for(int64_t head) const {
  const int64_t S = reference_.size(1);
  Tensor aligned = at::zeros_like(reference_);
  if (head < S) aligned.narrow(1, 0, S - head).copy_(reference_.narrow(1, head - 1, S - head));
  return aligned;
}

Tensor HostStep::get(const Read& read) {
  if (read.model == "policy" && read.what == "loss" && moment_.policy_loss.defined()) return moment_.policy_loss;
  if (read.model == "reference" && read.what == "loss" && reference_.defined()) {
    if (moment_.when == When::head) return reference_for(moment_.head);
    if (moment_.when == When::token) {
      const Tensor rows = reference_for(moment_.head).narrow(1, 0, reference_.size(1) - moment_.head).reshape({-1});
      return rows.narrow(0, moment_.chunk_begin, moment_.valid.size(0));
    }
    std::vector<Tensor> heads;
    for (int64_t head = 1; head <= config_.heads; ++head) heads.push_back(reference_for(head));
    return at::stack(heads, -1);
  }
  const auto leaf = moment_.leaves.find(read.what);
  if (read.model == "policy" && leaf != moment_.leaves.end()) return leaf->second.detach();
  throw Error(ExitStatus::plugin,
              "plugin reads " + read.model + "." + read.what +
                  ", which is not there at this moment; declare it in needs() and ask for the right When");
}

Tensor HostStep::leaf(const Read& read) {
  const auto leaf = moment_.leaves.find(read.what);
  if (read.model == "policy" && leaf != moment_.leaves.end()) return leaf->second;
  throw Error(ExitStatus::plugin, "plugin asks for the leaf " + read.model + "." + read.what +
                                      "; only value heads that it declares are leaves");
}

Tensor HostStep::counts() {
  return at::tensor(std::vector<double>(counts_.targets.begin(), counts_.targets.end()), at::kDouble);
}

Tensor HostStep::uniform(int64_t stream) {
  if (moment_.when == When::token)
    throw Error(ExitStatus::plugin, "plugin asks for uniform() at When::token; use When::before");
  Tensor numbers = at::empty(moment_.valid.sizes(), at::kFloat);
  float* out = numbers.mutable_data_ptr<float>();
  const int64_t B = numbers.size(0), S = numbers.size(1), H = numbers.dim() == 3 ? numbers.size(2) : 1;
  const uint64_t key = name_key("uniform " + std::to_string(stream), uint64_t(config_.seed));
  for (int64_t b = 0; b < B; ++b) {
    const uint64_t draw = uint64_t(number_) << 40 ^ uint64_t(micro_->positions[size_t(b)]);
    for (int64_t s = 0; s < S; ++s)
      for (int64_t h = 0; h < H; ++h) {
        const int64_t head = H == 1 && moment_.head ? moment_.head - 1 : h;
        *out++ = unit_float(philox(key, draw, uint64_t(s * config_.heads + head))[0]);
      }
  }
  return numbers.to(moment_.valid.device());
}

Tensor& HostStep::state(const std::string& name, const Tensor& first) {
  return states_.try_emplace(name, first.detach().clone()).first->second;
}

void HostStep::metric(const std::string& name, const Tensor& sum, const Tensor& count) {
  totals_->add("plugin_sum/" + name, sum);
  totals_->add("plugin_count/" + name, count);
}

}  // namespace wmtp
