#include "model/torch/row_ops.hpp"

#include <ATen/Parallel.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <limits>

#include "model/torch/kernels/device_rows.hpp"
#include "model/torch/kernels/tensors.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using kernels::device_rows;
using kernels::DeviceRowKernels;
using kernels::in;
using kernels::out;

/// Sums over rows are split into blocks of this size, so that results do not depend on the number of threads.
constexpr int64_t rows_per_block = 64;
constexpr int64_t elements_per_task = 32768;
constexpr int64_t logit_rows_per_task = 16;

/// Calls call<T>(begin, end) for parts of `count` items; T is the type of `x`.
template <class Call>
void in_parallel(const Tensor& x, int64_t count, int64_t grain, const Call& call) {
  kernels::by_type(x, [&]<class T>() {
    at::parallel_for(0, count, grain, [&](int64_t begin, int64_t end) { call.template operator()<T>(begin, end); });
  });
}

Normed normed_by_cpu(const Tensor& x, const Tensor& weight, double eps) {
  const int64_t width = x.size(-1), count = x.numel() / width;
  Tensor y = at::empty_like(x), scale = at::empty({count}, x.options().dtype(at::kFloat));
  in_parallel(x, count, rows_per_block, [&]<class T>(int64_t begin, int64_t end) {
    kernels::rows<T>().rms_norm(in<T>(x) + begin * width, in<T>(weight), float(eps), out<T>(y) + begin * width,
                                out<float>(scale) + begin, end - begin, width);
  });
  return {y, scale};
}

std::pair<Tensor, Tensor> normed_backward_by_cpu(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                                 const Tensor& scale, bool wants_dw) {
  const int64_t width = x.size(-1), count = x.numel() / width, blocks = (count + rows_per_block - 1) / rows_per_block;
  Tensor dx = at::empty_like(x), parts;
  if (wants_dw) parts = at::zeros({blocks, width}, x.options().dtype(at::kFloat));
  in_parallel(x, blocks, 1, [&]<class T>(int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t begin = block * rows_per_block, n = std::min(rows_per_block, count - begin);
      kernels::rows<T>().rms_norm_backward(in<T>(dy) + begin * width, in<T>(x) + begin * width, in<T>(weight),
                                           in<float>(scale) + begin, out<T>(dx) + begin * width,
                                           wants_dw ? out<float>(parts) + block * width : nullptr, n, width);
    }
  });
  return {dx, wants_dw ? parts.sum(0) : Tensor()};
}

DeviceRowKernels* norm_rows(const Tensor& x, const Tensor& weight) {
  DeviceRowKernels* rows = device_rows(x);
  return rows && rows->takes_norm(x) && rows->takes_norm(weight) ? rows : nullptr;
}

/// Of targets which may be those of other ranks: whether they are columns of these logits.
Tensor are_here(const Tensor& targets, const Tensor& logits) {
  return targets.ge(0).logical_and_(targets < logits.size(1));
}

/// Relative to the largest logit, like the kernels.
ScoredLogits cross_entropy_by_aten(const Tensor& logits, const Tensor& targets, ScoreRequest request, Columns columns) {
  Tensor wide = logits.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  const Tensor highest = wide.amax(1, /*keepdim=*/true);
  wide.sub_(highest);
  const bool has_all = columns == Columns::all;
  const Tensor places = has_all ? targets : targets.clamp(0, logits.size(1) - 1);
  Tensor of_target = wide.gather(1, places.unsqueeze(1)).squeeze(1);
  if (!has_all)
    of_target.masked_fill_(are_here(targets, logits).logical_not_(), -std::numeric_limits<float>::infinity());
  const Tensor log_sum = at::logsumexp(wide, 1);
  ScoredLogits result{{.losses = log_sum - of_target}, log_sum + highest.squeeze(1)};
  if (request.hits) result.scores.hits = of_target.ge(0).to(at::kFloat);
  if (request.entropies) {
    const Tensor probability = at::exp(wide - log_sum.unsqueeze(1));
    result.scores.entropies = (log_sum - probability.mul_(wide.clamp_min_(-100)).sum(1)).clamp_min_(0);
  }
  return result;
}

}  // namespace

Normed normed_rows(const Tensor& x, const Tensor& weight, double eps) {
  RECORD_FUNCTION("wmtp::norm", {});
  if (kernels::takes(x)) return normed_by_cpu(x, weight, eps);
  if (DeviceRowKernels* rows = norm_rows(x, weight)) {
    Normed normed{at::empty_like(x), at::empty({x.numel() / x.size(-1)}, x.options().dtype(at::kFloat))};
    rows->rms_norm(x, weight, eps, normed.y, normed.scale);
    return normed;
  }
  const Tensor wide = x.to(at::kFloat);
  const Tensor scale = wide.square().mean(-1, /*keepdim=*/true).add_(eps).rsqrt_();
  return {(wide * scale * weight).to(x.scalar_type()), scale.flatten()};
}

std::pair<Tensor, Tensor> normed_rows_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                               const Tensor& scale, bool wants_dw) {
  RECORD_FUNCTION("wmtp::norm_backward", {});
  if (kernels::takes(dy)) return normed_backward_by_cpu(dy, x, weight, scale, wants_dw);
  if (DeviceRowKernels* rows = norm_rows(dy, weight)) {
    Tensor dx = at::empty_like(x);
    const Tensor dw = rows->rms_norm_backward(dy, x, weight, scale, dx, wants_dw);
    return {dx, dw};
  }
  std::vector<int64_t> of_rows = x.sizes().vec();
  of_rows.back() = 1;
  const Tensor factor = scale.view(of_rows), normed = x.to(at::kFloat) * factor, wide = dy.to(at::kFloat);
  const Tensor dn = wide * weight.to(at::kFloat);
  const Tensor along = (dn * normed).mean(-1, /*keepdim=*/true);
  return {((dn - normed * along) * factor).to(x.scalar_type()),
          wants_dw ? (wide * normed).reshape({-1, x.size(-1)}).sum(0) : Tensor()};
}

Tensor swiglu_rows(const Tensor& gate, const Tensor& up) {
  RECORD_FUNCTION("wmtp::swiglu", {});
  Tensor y = at::empty_like(gate);
  if (kernels::takes(gate)) {
    in_parallel(gate, gate.numel(), elements_per_task, [&]<class T>(int64_t begin, int64_t end) {
      kernels::rows<T>().swiglu(in<T>(gate) + begin, in<T>(up) + begin, out<T>(y) + begin, end - begin);
    });
  } else if (DeviceRowKernels* rows = device_rows(gate)) {
    rows->swiglu(gate, up, y);
  } else {
    return at::silu(gate).mul_(up);
  }
  return y;
}

std::pair<Tensor, Tensor> swiglu_rows_backward(const Tensor& dy, const Tensor& gate, const Tensor& up) {
  RECORD_FUNCTION("wmtp::swiglu_backward", {});
  Tensor d_gate = at::empty_like(gate), d_up = at::empty_like(up);
  if (kernels::takes(gate)) {
    in_parallel(gate, gate.numel(), elements_per_task, [&]<class T>(int64_t begin, int64_t end) {
      kernels::rows<T>().swiglu_backward(in<T>(dy) + begin, in<T>(gate) + begin, in<T>(up) + begin,
                                         out<T>(d_gate) + begin, out<T>(d_up) + begin, end - begin);
    });
  } else if (DeviceRowKernels* rows = device_rows(gate)) {
    rows->swiglu_backward(dy, gate, up, d_gate, d_up);
  } else {
    return {at::silu_backward(dy * up, gate), at::silu(gate).mul_(dy)};
  }
  return {d_gate, d_up};
}

Tensor rotated(const Tensor& x, const Tensor& table, float direction) {
  RECORD_FUNCTION("wmtp::rotate", {});
  if (DeviceRowKernels* rows = device_rows(x)) {
    Tensor y = at::empty_like(x);
    rows->rotate(x, table, direction, y);
    return y;
  }
  if (!kernels::takes(x)) {
    const Tensor pairs = at::view_as_complex(x.to(at::kFloat).unflatten(-1, {-1, 2}));
    const Tensor factors = (direction > 0 ? table : table.conj().resolve_conj()).unsqueeze(1);
    return at::view_as_real(pairs * factors).flatten(-2).to(x.scalar_type());
  }
  const int64_t S = x.size(1), heads = x.size(2), width = x.size(3);
  Tensor y = at::empty_like(x);
  const float* angles = in<float>(table);
  in_parallel(x, x.size(0) * S, rows_per_block, [&]<class T>(int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      kernels::rows<T>().rotate(in<T>(x) + row * heads * width, angles + row % S * width, direction,
                                out<T>(y) + row * heads * width, heads, width);
  });
  return y;
}

Scores empty_scores(int64_t count, const at::TensorOptions& options, ScoreRequest request) {
  const auto part = [&](bool wanted) { return wanted ? at::empty({count}, options.dtype(at::kFloat)) : Tensor(); };
  return {part(true),
          part(request.entropies),
          part(request.hits),
          part(request.ranks),
          part(request.margins),
          part(request.top_k > 0),
          part(request.likeliest)};
}

Tensor target_logits(const Tensor& logits, const Tensor& targets, Columns columns) {
  if (columns == Columns::all) return logits.gather(1, targets.unsqueeze(1)).squeeze(1).to(at::kFloat);
  const Tensor places = targets.clamp(0, logits.size(1) - 1).unsqueeze(1);
  return logits.gather(1, places)
      .squeeze(1)
      .to(at::kFloat)
      .masked_fill_(are_here(targets, logits).logical_not_(), -std::numeric_limits<float>::infinity());
}

Tensor count_larger(const Tensor& logits, const Tensor& than) {
  const Tensor limits = than.to(logits.scalar_type()).unsqueeze(1);  // of another type, it would widen the logits
  if (!on_cpu(logits)) return logits.gt(limits).sum(1).to(at::kFloat);
  const int64_t count = logits.size(0);
  Tensor larger = at::empty({count}, than.options());
  for (int64_t begin = 0; begin < count; begin += logit_rows_per_task) {  // a sum on the CPU widens what it adds
    const int64_t n = std::min(logit_rows_per_task, count - begin);
    larger.narrow(0, begin, n).copy_(logits.narrow(0, begin, n).gt(limits.narrow(0, begin, n)).sum(1));
  }
  return larger;
}

Tensor largest_others(Tensor logits, const Tensor& targets, Columns columns) {
  const Tensor places = targets.clamp(0, logits.size(1) - 1).unsqueeze(1), kept = logits.gather(1, places);
  Tensor hidden = at::full_like(kept, -std::numeric_limits<float>::infinity());
  if (columns == Columns::piece) hidden = at::where(are_here(targets, logits).unsqueeze(1), hidden, kept);
  logits.scatter_(1, places, hidden);
  const Tensor largest = logits.amax(1).to(at::kFloat);
  logits.scatter_(1, places, kept);
  return largest;
}

Tensor largest_logits(const Tensor& logits, int64_t count) {
  const int64_t there = std::min(count, logits.size(1));
  return std::get<0>(logits.topk(there, /*dim=*/1, /*largest=*/true, /*sorted=*/false)).to(at::kFloat);
}

Tensor largest_column(const Tensor& logits) { return logits.argmax(1).to(at::kFloat); }

Tensor mass_of(const Tensor& largest, const Tensor& log_sum) {
  return (at::logsumexp(largest, 1) - log_sum).exp().clamp_max(1);  // rounding can make it larger
}

ScoredLogits cross_entropy(const Tensor& logits, const Tensor& targets, ScoreRequest request, Columns columns) {
  RECORD_FUNCTION("wmtp::cross_entropy", {});
  if (request.reads_order()) {  // by ATen: few pipelines read them
    TORCH_CHECK(columns == Columns::all, "ranks, margins and the likeliest tokens need all logits of a token");
    ScoredLogits result = cross_entropy(logits, targets, {request.entropies, request.hits});
    const Tensor of_target = target_logits(logits, targets, columns);
    if (request.ranks) result.scores.ranks = count_larger(logits, of_target);
    if (request.margins) result.scores.margins = of_target - largest_others(logits, targets, columns);
    if (request.top_k > 0) result.scores.top_masses = mass_of(largest_logits(logits, request.top_k), result.log_sum);
    if (request.likeliest) result.scores.likeliest = largest_column(logits);
    return result;
  }
  DeviceRowKernels* device = device_rows(logits);
  if (!device && !kernels::takes(logits)) return cross_entropy_by_aten(logits, targets, request, columns);
  const int64_t count = logits.size(0), width = logits.size(1);
  ScoredLogits result{empty_scores(count, logits.options(), request),
                      at::empty({count}, logits.options().dtype(at::kFloat))};
  Scores& scores = result.scores;
  if (device) {
    device->cross_entropy(logits, targets, scores.losses, result.log_sum, scores.entropies, scores.hits);
    return result;
  }
  const auto at_row = [](const Tensor& part, int64_t row) { return part.defined() ? out<float>(part) + row : nullptr; };
  in_parallel(logits, count, logit_rows_per_task, [&]<class T>(int64_t begin, int64_t end) {
    kernels::rows<T>().cross_entropy(in<T>(logits) + begin * width, in<int64_t>(targets) + begin,
                                     at_row(scores.losses, begin), at_row(result.log_sum, begin),
                                     at_row(scores.entropies, begin), at_row(scores.hits, begin), end - begin, width);
  });
  return result;
}

Tensor cross_entropy_gradient(Tensor logits, const Tensor& targets, const Tensor& log_sum, const Tensor& coefficients,
                              Columns columns) {
  RECORD_FUNCTION("wmtp::cross_entropy_backward", {});
  if (DeviceRowKernels* device = device_rows(logits)) {
    device->cross_entropy_backward(logits, targets, log_sum, coefficients);
    return logits;
  }
  if (!kernels::takes(logits)) {
    Tensor wide = logits.to(at::kFloat);
    wide.sub_(log_sum.unsqueeze(1)).exp_();
    if (columns == Columns::all)
      wide.scatter_add_(1, targets.unsqueeze(1), at::full({targets.size(0), 1}, -1.0, wide.options()));
    else
      wide.scatter_add_(1, targets.clamp(0, logits.size(1) - 1).unsqueeze(1),
                        are_here(targets, logits).to(at::kFloat).neg_().unsqueeze(1));
    return wide.mul_(coefficients.unsqueeze(1)).to(logits.scalar_type());
  }
  const int64_t count = logits.size(0), width = logits.size(1);
  in_parallel(logits, count, logit_rows_per_task, [&]<class T>(int64_t begin, int64_t end) {
    kernels::rows<T>().cross_entropy_backward(out<T>(logits) + begin * width, in<int64_t>(targets) + begin,
                                              in<float>(log_sum) + begin, in<float>(coefficients) + begin, end - begin,
                                              width);
  });
  return logits;
}

void accumulate(Tensor& sum, const Tensor& value, bool first) {
  RECORD_FUNCTION("wmtp::accumulate", {});
  if (!kernels::takes(value) || !value.is_contiguous()) {
    if (first)
      sum.copy_(value);
    else
      sum.add_(value);
    return;
  }
  in_parallel(value, value.numel(), elements_per_task, [&]<class T>(int64_t begin, int64_t end) {
    kernels::rows<T>().accumulate(out<float>(sum) + begin, in<T>(value) + begin, first, end - begin);
  });
}

std::vector<double> norm_parts(const Tensor& values, int order) {
  RECORD_FUNCTION("wmtp::gradient_norm", {});
  const int64_t count = values.numel(), blocks = (count + elements_per_task - 1) / elements_per_task;
  std::vector<double> parts((size_t(blocks)));
  if (values.is_meta()) return parts;
  at::parallel_for(0, blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t begin = block * elements_per_task;
      parts[size_t(block)] = kernels::rows<float>().norm_part(in<float>(values) + begin, order,
                                                              std::min(elements_per_task, count - begin));
    }
  });
  return parts;
}

void sum_of_parts(const Tensor& parts, Tensor& sum) {
  RECORD_FUNCTION("wmtp::sum_of_parts", {});
  if (DeviceRowKernels* rows = device_rows(parts)) return rows->sum_of_parts(parts, sum);
  for (int64_t part = 0; part < parts.size(0); ++part) accumulate(sum, parts[part], /*first=*/part == 0);
}

}  // namespace wmtp
