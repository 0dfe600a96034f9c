// On the CPU uses the fused kernels of kernels/attention.hpp: PyTorch 2.11's attention multiplies tile by tile, which
// takes several times as long for heads of 32 features in bf16 (docs/decisions/0007).
#include "model/torch/attention.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "model/chunks.hpp"
#include "model/torch/kernels/attention.hpp"
#include "model/torch/kernels/tensors.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct Shape {
  int64_t B, S, K, R, D;  ///< each of the K key heads is read by R query heads
  int64_t window;
  const int32_t* documents;  ///< [B,S] or null

  static Shape of(const Tensor& query, const Tensor& key, int64_t window, const Tensor& documents) {
    return {query.size(0),
            query.size(1),
            key.size(2),
            query.size(2) / key.size(2),
            query.size(3),
            window,
            documents.defined() ? kernels::in<int32_t>(documents) : nullptr};
  }
  int64_t parts() const { return num_query_parts(B * K, S); }
  /// Forward, without a discount for the causal mask.
  double operations() const { return 4.0 * double(B * S * K * R * D) * double(window > 0 ? std::min(window, S) : S); }
  int64_t tasks() const { return B * K * parts(); }
  /// A row for each thread.
  Tensor scratch(bool backward, const at::TensorOptions& options) const {
    return at::empty({std::min<int64_t>(at::get_num_threads(), tasks()), attention_scratch(S, D, backward)},
                     options.dtype(at::kFloat));
  }
};

/// A unit of work for one thread: a key head and a part of its queries.
struct Task {
  kernels::AttentionHead head;
  int64_t query, key, log_sum;  ///< the head's offset in those tensors
  int64_t part;

  Task(const Shape& s, int64_t number) : part(number % s.parts()) {
    const int64_t pair = number / s.parts(), b = pair / s.K, k = pair % s.K;
    const auto cut = [&](int64_t i) {
      return std::min(num_query_blocks(s.S) * i / s.parts() * queries_per_block, s.S);
    };
    head = {s.R,       s.D,       s.K * s.R * s.D,
            s.K * s.D, cut(part), cut(part + 1),
            s.S,       s.window,  s.documents ? s.documents + b * s.S : nullptr};
    query = b * s.S * head.query_stride + k * s.R * s.D;
    key = b * s.S * head.key_stride + k * s.D;
    log_sum = pair * s.R * s.S;
  }
};

/// Calls call(task, scratch) for each task, on all threads. Scratch is allocated for all threads together: if each
/// thread allocated its own, a step's memory would depend on which threads happen to run at the same time.
template <class Call>
void for_each_task(const Shape& s, const Tensor& scratch, Call call) {
  at::parallel_for(0, s.tasks(), 1, [&](int64_t begin, int64_t end) {
    float* const own = kernels::out<float>(scratch) + at::get_thread_num() * scratch.size(1);
    for (int64_t number = begin; number < end; ++number) call(Task(s, number), own);
  });
}

struct CausalAttention : Function<CausalAttention> {
  static Tensor forward(AutogradContext* context, const Tensor& query, const Tensor& key, const Tensor& value,
                        int64_t window, const std::optional<Tensor>& given_documents) {
    const Tensor documents = given_documents.value_or(Tensor());
    const Shape s = Shape::of(query, key, window, documents);
    const Tensor q = query.contiguous(), k = key.contiguous(), v = value.contiguous();
    const Tensor log_sums = at::empty({s.B * s.K, s.R, s.S}, q.options().dtype(at::kFloat)), out = at::empty_like(q);
    if (q.is_meta()) count_operations(s.operations());
    kernels::by_type(q, [&, for_all = s.scratch(/*backward=*/false, q.options())]<class T>() {
      for_each_task(s, for_all, [&](const Task& task, float* scratch) {
        kernels::attention<T>().forward(task.head, kernels::in<T>(q) + task.query, kernels::in<T>(k) + task.key,
                                        kernels::in<T>(v) + task.key, kernels::out<T>(out) + task.query,
                                        kernels::out<float>(log_sums) + task.log_sum, scratch);
      });
    });
    context->save_for_backward({q, k, v, log_sums, documents});
    context->saved_data["window"] = window;
    return out.flatten(2);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &log_sums = saved[3], d_out = gradients[0].contiguous();
    const Shape s = Shape::of(q, k, context->saved_data["window"].toInt(), saved[4]);
    const Tensor dq = at::empty_like(q);
    const auto of_parts = q.options().dtype(at::kFloat);
    const Tensor dk = at::empty({s.parts(), s.B, s.S, s.K, s.D}, of_parts), dv = at::empty_like(dk);
    if (s.parts() > 1) {  // a part writes no keys behind its queries
      dk.zero_();
      dv.zero_();
    }
    if (q.is_meta()) count_operations(2 * s.operations());
    kernels::by_type(q, [&, for_all = s.scratch(/*backward=*/true, q.options())]<class T>() {
      for_each_task(s, for_all, [&](const Task& task, float* scratch) {
        const int64_t place = task.part * k.numel() + task.key;
        kernels::attention<T>().backward(task.head, kernels::in<T>(q) + task.query, kernels::in<T>(k) + task.key,
                                         kernels::in<T>(v) + task.key, kernels::in<T>(d_out) + task.query,
                                         kernels::in<float>(log_sums) + task.log_sum, kernels::out<T>(dq) + task.query,
                                         kernels::out<float>(dk) + place, kernels::out<float>(dv) + place, scratch);
      });
    });
    const auto summed = [&](const Tensor& parts) {
      return (s.parts() == 1 ? parts.select(0, 0) : parts.sum(0)).to(q.scalar_type());
    };
    return {dq, summed(dk), summed(dv), Tensor(), Tensor()};
  }
};

int64_t rounded_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

/// What LibTorch's flash attention allocates, for meta tensors; for fp32, whose attention is another kernel with a
/// workspace of its own, about that. Bitwise reproducible sums of dq take a part for each group of thread blocks.
struct MetaAttention : Function<MetaAttention> {
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v, int64_t window) {
    const Shape s = Shape::of(q, k, window, {});
    const Tensor out = at::empty_like(q), log_sums = at::empty({s.B, s.K * s.R, s.S}, q.options().dtype(at::kFloat));
    count_operations(s.operations());
    context->save_for_backward({q, k, v, out, log_sums});
    context->saved_data["window"] = window;
    return out.flatten(2);
  }
  static variable_list backward(AutogradContext* context, variable_list) {
    const auto saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const Shape s = Shape::of(q, k, context->saved_data["window"].toInt(), {});
    count_operations(2 * s.operations());
    const variable_list d{at::empty_like(q), at::empty_like(k), at::empty_like(v), Tensor()};
    const at::TensorOptions fp32 = q.options().dtype(at::kFloat);
    const int64_t H = s.K * s.R, rows = rounded_up(s.S, 128);
    const bool splits = at::globalContext().deterministicAlgorithms() && q.scalar_type() != at::kFloat;
    const int64_t parts = splits ? rounded_up(multiprocessors, s.B * H) / (s.B * H) : 1;
    const Tensor row_sums = at::empty({s.B, H, rows}, fp32);
    const Tensor dq_sums = at::empty({parts, s.B, rows, H, rounded_up(s.D, 32)}, fp32);
    if (s.R == 1) return d;
    const Tensor dk_of_all_heads = at::empty_like(q), dv_of_all_heads = at::empty_like(q);
    return d;
  }

  static constexpr int64_t multiprocessors = 132;  ///< of an H100 or H200
};

/// [S,S] or [B,1,S,S] bool: where a query reads; nullopt: all keys up to its own.
std::optional<Tensor> attention_mask(const Tensor& query, int64_t window, const Tensor& documents) {
  const int64_t S = query.size(1);
  const bool has_window = window > 0 && window < S;
  if (!has_window && !documents.defined()) return std::nullopt;
  Tensor mask = at::ones({S, S}, query.options().dtype(at::kBool).requires_grad(false)).tril_();
  if (has_window) mask.triu_(1 - window);
  if (!documents.defined()) return mask;
  const Tensor keys = at::arange(S, documents.options());
  return mask.logical_and(keys >= documents.unsqueeze(-1)).unsqueeze(1);
}

}  // namespace

Tensor causal_attention(const Tensor& query, const Tensor& key, const Tensor& value, int64_t window,
                        const Tensor& documents) {
  if (kernels::takes(query))  // an undefined tensor would not be taken
    return CausalAttention::apply(query, key, value, window,
                                  documents.defined() ? std::optional(documents) : std::nullopt);
  const std::optional<Tensor> mask = attention_mask(query, window, documents);
  if (query.is_meta()) return MetaAttention::apply(query, key, value, window);
  const Tensor mixed = at::scaled_dot_product_attention(
      query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), mask, /*dropout_p=*/0.0,
      /*is_causal=*/!mask, /*scale=*/std::nullopt, /*enable_gqa=*/query.size(2) != key.size(2));
  return mixed.transpose(1, 2).flatten(2);
}

}  // namespace wmtp
