#include "engine/inference/cached_model.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "engine/inference/row_math.hpp"
#include "engine/model/kernels/tensors.hpp"

namespace wmtp {

using at::Tensor;

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
    throw Error(ExitStatus::bug, "decode: the other heads know " + std::to_string(proposed_) + " tokens, the trunk's " +
                                     "output is there from " + std::to_string(trunk_rows_begin_) + " to " +
                                     std::to_string(length_));
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
  const float* x = kernels::in<float>(logits);
  int64_t best = 0;
  for (int64_t i = 0; i < logits.numel(); ++i) {
    if (!std::isfinite(x[i]))
      throw Error(ExitStatus::data, "the model's logit of id " + std::to_string(i) +
                                        " is not a finite number; its weights are no use: look at how its run ended");
    if (x[i] > x[best]) best = i;
  }
  return best;
}

}  // namespace wmtp
