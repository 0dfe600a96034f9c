#include "engine/inference/cached_block.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/round_up.hpp"
#include "engine/inference/row_math.hpp"
#include "engine/model/kernels/products.hpp"
#include "engine/model/kernels/tensors.hpp"

namespace wmtp {

using at::Tensor;
using kernels::in;
using kernels::out;

namespace {

constexpr int64_t multiplications_of_task = int64_t{1} << 18;
constexpr int64_t whole_vector = 16;  ///< causal_softmax takes keys in so many; room for the last of them is there

int64_t rounded_up(int64_t count) { return round_up(count, whole_vector); }

}  // namespace

CachedBlock::CachedBlock(const ModelConfig& model, const std::string& name, const FindWeight& find, int64_t positions)
    : heads_(model.heads), kv_heads_(model.kv_heads), head_dim_(wmtp::head_dim(model)), eps_(model.norm_eps) {
  const auto weight = [&](const char* part) { return find(name + "." + part + ".weight").weight(); };
  attention_norm_ = weight("attention_norm");
  ffn_norm_ = weight("ffn_norm");
  wq_ = weight("attention.wq");
  wk_ = weight("attention.wk");
  wv_ = weight("attention.wv");
  wo_ = weight("attention.wo");
  w1_ = weight("feed_forward.w1");
  w2_ = weight("feed_forward.w2");
  w3_ = weight("feed_forward.w3");
  if (model.qkv_bias) {
    const auto bias = [&](const char* part) { return find(name + ".attention." + part + ".bias").weight(); };
    bq_ = bias("wq");
    bk_ = bias("wk");
    bv_ = bias("wv");
  }
  keys_ = at::zeros({kv_heads_, positions, head_dim_}, at::kFloat);
  values_ = at::zeros_like(keys_);
}

void CachedBlock::keep(const Tensor& rows, int64_t begin, const Tensor& cache) const {
  const int64_t positions = cache.size(1);
  for (int64_t i = 0; i < rows.size(0); ++i)
    for (int64_t k = 0; k < kv_heads_; ++k)
      std::memcpy(out<float>(cache) + (k * positions + begin + i) * head_dim_,
                  in<float>(rows) + (i * kv_heads_ + k) * head_dim_, size_t(head_dim_) * sizeof(float));
}

/// query [n,H*W], the first at `position` -> [n,H*W]. What engine/model/attention.hpp defines, of one query and head at a
/// time.
Tensor CachedBlock::attention(const Tensor& query, int64_t position) const {
  Tensor mixed = at::empty_like(query);
  const int64_t n = query.size(0), positions = keys_.size(1);
  const float scale = 1.0f / std::sqrt(float(head_dim_));
  const int64_t grain = std::max<int64_t>(1, multiplications_of_task / (2 * (position + n) * head_dim_));
  at::parallel_for(0, n * heads_, grain, [&](int64_t begin, int64_t end) {
    const int64_t room = rounded_up(position + n);
    std::vector<float> shares(static_cast<size_t>(room));
    for (int64_t task = begin; task < end; ++task) {
      const int64_t count = position + task / heads_ + 1, pair = task % heads_ / (heads_ / kv_heads_);
      const int64_t of_head = pair * positions * head_dim_;
      kernels::products().times_transposed(in<float>(query) + task * head_dim_, in<float>(keys_) + of_head,
                                           shares.data(), 1, count, head_dim_, count);
      kernels::rows<float>().causal_softmax(shares.data(), scale, count, rounded_up(count));
      kernels::products().mix(shares.data(), in<float>(values_) + of_head, out<float>(mixed) + task * head_dim_, count,
                              head_dim_);
    }
  });
  return mixed;
}

Tensor CachedBlock::run(const Tensor& x, int64_t begin, int64_t first, const Tensor& rotary) {
  const Tensor normed = row_norms(x, attention_norm_, eps_);
  keep(row_rotated(with_bias(row_products(normed, wk_), bk_), rotary, begin), begin, keys_);
  keep(with_bias(row_products(normed, wv_), bv_), begin, values_);

  const int64_t n = x.size(0) - first, position = begin + first;
  const Tensor query = row_rotated(with_bias(row_products(normed.narrow(0, first, n), wq_), bq_), rotary, position);
  Tensor h = x.narrow(0, first, n).clone();
  add_rows(h, row_products(attention(query, position), wo_));
  const Tensor to_ffn = row_norms(h, ffn_norm_, eps_);
  add_rows(h, row_products(row_swiglu(row_products(to_ffn, w1_), row_products(to_ffn, w3_)), w2_));
  return h;
}

}  // namespace wmtp
