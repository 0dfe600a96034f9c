// On the CPU uses the fused kernels of kernels/attention.hpp: PyTorch 2.11's attention multiplies tile by tile, which
// takes several times as long for heads of 32 features in bf16 (docs/decisions/0007).
#include "model/torch/attention.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/SDPBackend.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/record_function.h>

#include "base/round_up.hpp"
#include "model/chunks.hpp"
#include "model/torch/kernels/attention.hpp"
#include "model/torch/kernels/tensors.hpp"
#include "model/torch/operation.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Shape {
  int64_t B, S, K, R, D;  ///< each of the K key heads is read by R query heads
  int64_t window;
  const int32_t* documents;  ///< [B,S] or null

  static Shape of(const Tensor& query, const Tensor& key, int64_t window, const Tensor& documents = {}) {
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

struct CausalAttention : Operation<CausalAttention> {
  static Tensor forward(AutogradContext* context, const Tensor& query, const Tensor& key, const Tensor& value,
                        int64_t window, const std::optional<Tensor>& given_documents) {
    RECORD_FUNCTION("wmtp::attention", {});
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
    RECORD_FUNCTION("wmtp::attention_backward", {});
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

constexpr int64_t rows_of_block = 128;  // of queries, in the gradients of flash attention
constexpr int64_t shortest_mean_document = 64;

/// What LibTorch's flash attention allocates, for meta tensors, of `num_documents` in all sequences, or 0: each is one;
/// for fp32, whose attention is another kernel with a workspace of its own, about that. Bitwise reproducible sums of dq
/// take a part for each group of thread blocks.
struct MetaAttention : Operation<MetaAttention> {
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v, int64_t window,
                        int64_t num_documents) {
    const Shape s = Shape::of(q, k, window);
    const Tensor out = at::empty_like(q), log_sums = at::empty({s.B, s.K * s.R, s.S}, q.options().dtype(at::kFloat));
    count_operations(s.operations());
    context->save_for_backward({q, k, v, out, log_sums});
    context->saved_data["window"] = window;
    context->saved_data["num_documents"] = num_documents;
    return out.flatten(2);
  }
  static variable_list backward(AutogradContext* context, variable_list) {
    const auto saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const Shape s = Shape::of(q, k, context->saved_data["window"].toInt());
    const int64_t num_documents = context->saved_data["num_documents"].toInt();
    count_operations(2 * s.operations());
    const variable_list d{at::empty_like(q), at::empty_like(k), at::empty_like(v), Tensor(), Tensor()};
    const at::TensorOptions fp32 = q.options().dtype(at::kFloat);
    const int64_t H = s.K * s.R, sequences = num_documents > 0 ? num_documents : s.B;
    const int64_t rows =
        num_documents > 0 ? s.B * s.S + rows_of_block * num_documents : s.B * round_up(s.S, rows_of_block);
    const bool splits = at::globalContext().deterministicAlgorithms() && q.scalar_type() != at::kFloat;
    const int64_t parts = splits ? round_up(multiprocessors, sequences * H) / (sequences * H) : 1;
    const Tensor row_sums = at::empty({H, rows}, fp32);
    const Tensor dq_sums = at::empty({parts, rows, H, round_up(s.D, 32)}, fp32);
    if (s.R == 1) return d;
    const Tensor dk_of_all_heads = at::empty_like(q), dv_of_all_heads = at::empty_like(q);
    return d;
  }

  static constexpr int64_t multiprocessors = 132;  ///< of an H100 or H200
};

/// Whether a CUDA device has flash attention for these, or cuDNN's, which runs on fewer devices.
bool takes_flash(const Tensor& query, const Tensor& key, const Tensor& value) {
  if (!on_cuda(query)) return false;
  if (query.is_meta()) return true;
  const int64_t choice = at::_fused_sdp_choice(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2),
                                               /*attn_mask=*/std::nullopt, /*dropout_p=*/0.0, /*is_causal=*/true,
                                               /*scale=*/std::nullopt, query.size(2) != key.size(2));
  return choice == int64_t(at::SDPBackend::flash_attention) || choice == int64_t(at::SDPBackend::cudnn_attention);
}

/// Whether a window and documents are given to flash attention as numbers: a mask would need another kernel, which
/// takes ten times as long.
bool divides_sequences(const Tensor& query, const Tensor& key, const Tensor& value, const Documents& documents) {
  const at::ScalarType type = query.scalar_type();
  const bool fits = (type == at::kBFloat16 || type == at::kHalf) && query.size(3) % 8 == 0 && query.size(3) <= 256;
  const bool few =
      !documents.defined() ||
      (documents.ends.defined() && documents.ends.numel() - 1 <= most_separate_documents(documents.begins.numel()));
  return fits && few && takes_flash(query, key, value);
}

/// Flash attention within the window and the documents: [B,S,H*D].
Tensor divided_attention(const Tensor& query, const Tensor& key, const Tensor& value, int64_t window,
                         const Documents& documents) {
  const int64_t S = query.size(1);
  const bool separate = documents.defined();
  const auto rows = [&](const Tensor& x) { return separate ? x.flatten(0, 1) : x; };
  const auto ends = separate ? std::optional(documents.ends) : std::nullopt;
  const auto keys_before = window > 0 ? std::optional(window - 1) : std::nullopt;
  const Tensor mixed = std::get<0>(at::_flash_attention_forward(
      rows(query), rows(key), rows(value), ends, ends, S, S, /*dropout_p=*/0.0, /*is_causal=*/true,
      /*return_debug_mask=*/false, /*scale=*/std::optional<double>(), keys_before));
  return mixed.reshape({query.size(0), S, -1});
}

/// [S,S] or [B,1,S,S] bool: where a query reads.
Tensor attention_mask(const Tensor& query, int64_t window, const Documents& documents) {
  const int64_t S = query.size(1);
  Tensor mask = at::ones({S, S}, query.options().dtype(at::kBool).requires_grad(false)).tril_();
  if (window > 0) mask.triu_(1 - window);
  if (!documents.defined()) return mask;
  const Tensor keys = at::arange(S, documents.begins.options());
  return mask.logical_and(keys >= documents.begins.unsqueeze(-1)).unsqueeze(1);
}

}  // namespace

int64_t most_separate_documents(int64_t positions) { return positions / shortest_mean_document; }

Tensor causal_attention(const Tensor& query, const Tensor& key, const Tensor& value, int64_t window,
                        const Documents& documents) {
  if (kernels::takes(query))  // an undefined tensor would not be taken
    return CausalAttention::apply(query, key, value, window,
                                  documents.defined() ? std::optional(documents.begins) : std::nullopt);
  if (window >= query.size(1)) window = 0;
  const bool divides = (window > 0 || documents.defined()) && divides_sequences(query, key, value, documents);
  const bool masks = (window > 0 || documents.defined()) && !divides;
  const std::optional<Tensor> mask = masks ? std::optional(attention_mask(query, window, documents)) : std::nullopt;
  if (query.is_meta())
    return MetaAttention::apply(query, key, value, window,
                                divides && documents.defined() ? documents.ends.numel() - 1 : int64_t{0});
  if (divides) return divided_attention(query, key, value, window, documents);
  const Tensor mixed = at::scaled_dot_product_attention(
      query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), mask, /*dropout_p=*/0.0,
      /*is_causal=*/!mask, /*scale=*/std::nullopt, /*enable_gqa=*/query.size(2) != key.size(2));
  return mixed.transpose(1, 2).flatten(2);
}

}  // namespace wmtp
