#include "engine/inference/cached_model.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.hpp"
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
constexpr int64_t softmax_multiple = 16;  ///< a width of causal_softmax is a multiple of it

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

void CachedBlock::cache_rows(const Tensor& rows, int64_t begin, const Tensor& cache) const {
  const int64_t positions = cache.size(1);
  for (int64_t i = 0; i < rows.size(0); ++i)
    for (int64_t k = 0; k < kv_heads_; ++k)
      std::memcpy(out<float>(cache) + (k * positions + begin + i) * head_dim_,
                  in<float>(rows) + (i * kv_heads_ + k) * head_dim_, size_t(head_dim_) * sizeof(float));
}

/// query [n,H*W], the first at `position` -> [n,H*W]. The attention of engine/model/attention.hpp, one query and head
/// at a time.
Tensor CachedBlock::attention(const Tensor& query, int64_t position) const {
  Tensor mixed = at::empty_like(query);
  const int64_t n = query.size(0), positions = keys_.size(1);
  const float scale = 1.0f / std::sqrt(float(head_dim_));
  const int64_t grain = std::max<int64_t>(1, multiplications_of_task / (2 * (position + n) * head_dim_));
  at::parallel_for(0, n * heads_, grain, [&](int64_t begin, int64_t end) {
    const int64_t room = round_up(position + n, softmax_multiple);
    std::vector<float> shares(static_cast<size_t>(room));
    for (int64_t task = begin; task < end; ++task) {
      const int64_t count = position + task / heads_ + 1, pair = task % heads_ / (heads_ / kv_heads_);
      const int64_t head_begin = pair * positions * head_dim_;
      kernels::products().times_transposed(in<float>(query) + task * head_dim_, in<float>(keys_) + head_begin,
                                           shares.data(), 1, count, head_dim_, count);
      kernels::rows<float>().causal_softmax(shares.data(), scale, count, round_up(count, softmax_multiple));
      kernels::products().mix(shares.data(), in<float>(values_) + head_begin, out<float>(mixed) + task * head_dim_,
                              count, head_dim_);
    }
  });
  return mixed;
}

Tensor CachedBlock::run(const Tensor& x, int64_t begin, int64_t first, const Tensor& rotary) {
  const Tensor normed = row_norms(x, attention_norm_, eps_);
  cache_rows(row_rotated(with_bias(row_products(normed, wk_), bk_), rotary, begin), begin, keys_);
  cache_rows(with_bias(row_products(normed, wv_), bv_), begin, values_);

  const int64_t n = x.size(0) - first, position = begin + first;
  const Tensor query = row_rotated(with_bias(row_products(normed.narrow(0, first, n), wq_), bq_), rotary, position);
  Tensor h = x.narrow(0, first, n).clone();
  add_rows(h, row_products(attention(query, position), wo_));
  const Tensor to_ffn = row_norms(h, ffn_norm_, eps_);
  add_rows(h, row_products(row_swiglu(row_products(to_ffn, w1_), row_products(to_ffn, w3_)), w2_));
  return h;
}

CachedModel::CachedModel(ShardedModel& model, int64_t positions)
    : positions_(positions), eps_(model.config().norm_eps), rotary_(model.rotary().contiguous()) {
  for (const auto& unit : model.units()) weights_.push_back(std::make_unique<Gathered>(*unit));
  const ModelConfig& config = model.config();
  const FindWeight find = [&](const std::string& name) { return model.weight(name); };
  embedding_ = find("tok_embeddings.weight").weight();
  norm_ = find("norm.weight").weight();
  output_ = find("output.weight").weight();
  for (int64_t i = 0; i < model.num_trunk_blocks(); ++i)
    trunk_.emplace_back(config, trunk_block_name(i), find, positions);
  for (int64_t k = 1; k <= model.num_heads(); ++k)
    heads_.emplace_back(config, head_block_name(config, k), find, positions);
}

Tensor CachedModel::logits_of(const Tensor& hidden) const {
  return row_products(row_norms(hidden, norm_, eps_), output_);
}

Tensor CachedModel::feed(const std::vector<int64_t>& ids, Logits logits) {
  const auto n = int64_t(ids.size());
  if (n < 1 || length_ + n > positions_)
    throw Error(ExitStatus::bug, "decode: " + std::to_string(n) + " tokens after " + std::to_string(length_) + " of " +
                                     std::to_string(positions_));
  Tensor h = embedding_.index_select(0, at::tensor(ids, at::kLong));
  for (CachedBlock& block : trunk_) h = block.run(h, length_, 0, rotary_);
  trunk_rows_ = h;
  trunk_rows_begin_ = length_;
  h = heads_.front().run(h, length_, logits == Logits::of_all ? 0 : n - 1, rotary_);
  length_ += n;
  return logits_of(h);
}

void CachedModel::shorten(int64_t length) {
  length_ = std::min(length_, length);
  proposed_ = std::min(proposed_, length_);
}

std::vector<int64_t> CachedModel::propose() {
  if (num_heads() == 1) return {};
  const int64_t n = length_ - proposed_;
  if (n < 1 || proposed_ < trunk_rows_begin_)
    throw Error(ExitStatus::bug, "decode: the other heads have read " + std::to_string(proposed_) +
                                     " tokens, the trunk's " + "output is kept from " +
                                     std::to_string(trunk_rows_begin_) + " to " + std::to_string(length_));
  const Tensor rows = trunk_rows_.narrow(0, proposed_ - trunk_rows_begin_, n);
  std::vector<Tensor> hidden;
  for (size_t k = 1; k < heads_.size(); ++k) hidden.push_back(heads_[k].run(rows, proposed_, n - 1, rotary_));
  proposed_ = length_;
  const Tensor logits = logits_of(at::cat(hidden));
  std::vector<int64_t> ids;
  for (int64_t k = 0; k < logits.size(0); ++k) ids.push_back(most_likely(logits[k]));
  return ids;
}

int64_t most_likely(const Tensor& logits) {
  const float* x = in<float>(logits);
  int64_t best = 0;
  for (int64_t i = 0; i < logits.numel(); ++i) {
    if (!std::isfinite(x[i]))
      throw Error(ExitStatus::data,
                  "the model's logit of id " + std::to_string(i) +
                      " is not a finite number, so its weights are unusable; look at how its run ended");
    if (x[i] > x[best]) best = i;
  }
  return best;
}

}  // namespace wmtp
