#include "model/linear_cross_entropy.hpp"

#include <ATen/Parallel.h>

#include <algorithm>

#include "memory/allocator.hpp"
#include "model/kernels/tensors.hpp"

namespace wmtp {
namespace {

using at::Tensor;
constexpr int64_t rows_of_task = 16;

/// Losses of a chunk and the log-sum-exp they came from, both [n] fp32.
std::pair<Tensor, Tensor> chunk_losses(const Tensor& logits, const Tensor& targets) {
  if (!kernels::takes(logits)) {
    const Tensor wide = logits.to(at::kFloat);
    const Tensor log_sum = at::logsumexp(wide, 1);
    return {log_sum - wide.gather(1, targets.unsqueeze(1)).squeeze(1), log_sum};
  }
  const int64_t count = logits.size(0), width = logits.size(1);
  Tensor losses = at::empty({count}, at::kFloat), log_sum = at::empty({count}, at::kFloat);
  kernels::by_type(logits, [&]<class T>() {
    at::parallel_for(0, count, rows_of_task, [&](int64_t begin, int64_t end) {
      kernels::rows<T>().cross_entropy(kernels::in<T>(logits) + begin * width,
                                       targets.const_data_ptr<int64_t>() + begin, kernels::out<float>(losses) + begin,
                                       kernels::out<float>(log_sum) + begin, end - begin, width);
    });
  });
  return {losses, log_sum};
}

/// logits <- coefficient * (softmax(logits) - onehot(target)), in the logits' dtype.
Tensor into_gradient(Tensor logits, const Tensor& targets, const Tensor& log_sum, const Tensor& coefficients) {
  if (!kernels::takes(logits)) {
    Tensor wide = logits.to(at::kFloat);
    wide.sub_(log_sum.unsqueeze(1)).exp_();
    wide.scatter_add_(1, targets.unsqueeze(1), at::full({targets.size(0), 1}, -1.0, wide.options()));
    return wide.mul_(coefficients.unsqueeze(1)).to(logits.scalar_type());
  }
  const int64_t count = logits.size(0), width = logits.size(1);
  kernels::by_type(logits, [&]<class T>() {
    at::parallel_for(0, count, rows_of_task, [&](int64_t begin, int64_t end) {
      kernels::rows<T>().cross_entropy_backward(
          kernels::out<T>(logits) + begin * width, targets.const_data_ptr<int64_t>() + begin,
          kernels::in<float>(log_sum) + begin, kernels::in<float>(coefficients) + begin, end - begin, width);
    });
  });
  return logits;
}

}  // namespace

int64_t chunk_tokens(int64_t vocab_size) { return std::clamp<int64_t>((int64_t{4} << 20) / vocab_size, 64, 4096); }

Tensor LinearCrossEntropy::losses(const Tensor& hidden, const Tensor& targets) const {
  const MemoryScope scope(MemoryCategory::logits);
  const int64_t count = hidden.size(0);
  Tensor losses = at::empty({count}, hidden.options().dtype(at::kFloat));
  for (int64_t begin = 0; begin < count; begin += chunk_) {
    const int64_t n = std::min(chunk_, count - begin);
    const Tensor logits = at::linear(hidden.narrow(0, begin, n), output_.weight());
    losses.narrow(0, begin, n).copy_(chunk_losses(logits, targets.narrow(0, begin, n)).first);
  }
  return losses;
}

LinearCrossEntropy::Result LinearCrossEntropy::one_pass(const Tensor& hidden, const Tensor& targets,
                                                        const Coefficients& coefficients, bool sparse) const {
  const MemoryScope scope(MemoryCategory::logits);
  const int64_t count = hidden.size(0);
  const Tensor weight = output_.weight();
  Result result{at::empty({count}, hidden.options().dtype(at::kFloat)), at::empty_like(hidden)};
  for (int64_t begin = 0; begin < count; begin += chunk_) {
    const int64_t n = std::min(chunk_, count - begin);
    Tensor chunk_hidden = hidden.narrow(0, begin, n);
    Tensor chunk_targets = targets.narrow(0, begin, n);
    Tensor logits = at::linear(chunk_hidden, weight);
    auto [losses, log_sum] = chunk_losses(logits, chunk_targets);
    result.losses.narrow(0, begin, n).copy_(losses);
    Tensor coefficient = coefficients(losses, begin).contiguous();
    Tensor d_hidden = result.d_hidden.narrow(0, begin, n);
    Tensor kept;
    if (sparse) {
      kept = coefficient.nonzero().squeeze(1);
      if (kept.size(0) == n) kept.reset();
    }
    if (kept.defined()) {
      chunk_hidden = chunk_hidden.index_select(0, kept);
      chunk_targets = chunk_targets.index_select(0, kept);
      logits = logits.index_select(0, kept);
      log_sum = log_sum.index_select(0, kept);
      coefficient = coefficient.index_select(0, kept);
    }
    const Tensor gradient = into_gradient(std::move(logits), chunk_targets, log_sum, coefficient);
    if (output_.trains()) output_.store->add_product(output_.index, gradient, chunk_hidden);
    if (kept.defined())
      d_hidden.zero_().index_copy_(0, kept, at::mm(gradient, weight));
    else
      at::mm_out(d_hidden, gradient, weight);
  }
  return result;
}

Tensor LinearCrossEntropy::gradients(const Tensor& hidden, const Tensor& targets, const Tensor& coefficients) const {
  const Tensor kept = coefficients.nonzero().squeeze(1);
  const Tensor chosen = coefficients.index_select(0, kept);
  const Result result = one_pass(
      hidden.index_select(0, kept), targets.index_select(0, kept),
      [&](const Tensor& losses, int64_t begin) { return chosen.narrow(0, begin, losses.size(0)); }, false);
  return at::zeros_like(hidden).index_copy_(0, kept, result.d_hidden);
}

}  // namespace wmtp
