#include "inference/cached_model.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.hpp"
#include "base/round_up.hpp"
#include "inference/row_math.hpp"
#include "model/chunks.hpp"
#include "model/drafts.hpp"
#include "model/torch/kernels/products.hpp"
#include "model/torch/kernels/tensors.hpp"

namespace wmtp {

using at::Tensor;
using kernels::in;
using kernels::out;

namespace {

constexpr int64_t multiplications_per_task = int64_t{1} << 18;
constexpr int64_t softmax_multiple = 16;  ///< widths passed to causal_softmax are multiples of this

/// first, first + 1, ... end - 1.
std::vector<int64_t> indices(int64_t first, int64_t end) {
  std::vector<int64_t> all(size_t(end - first));
  std::iota(all.begin(), all.end(), first);
  return all;
}

}  // namespace

/// The operations of a block's forward pass (model/block.hpp) on rows [n,features].
class CachedMath {
 public:
  CachedMath(CachedBlock& block, const TextRows& rows, const std::vector<int64_t>& wanted, const Tensor& rotary)
      : block_(block), rows_(rows), wanted_rows_(rows.only(wanted)), wanted_(at::tensor(wanted)), rotary_(rotary) {}
  Tensor norm(Layer layer, const Tensor& x) const {
    const Tensor& weight = block_.weights_.at(layer).weight;
    return row_norms(x.view({-1, weight.size(0)}), weight, block_.model_.norm_eps).view_as(x);
  }
  Tensor linear(Layer layer, const Tensor& x) const {
    const CachedBlock::Weights& weights = block_.weights_.at(layer);
    return with_bias(row_products(x, weights.weight), weights.bias);
  }
  /// Of all rows or of the wanted ones.
  Tensor rotate(const Tensor& x) const {
    return row_rotated(x, rotary_, (x.size(0) == rows_.size() ? rows_ : wanted_rows_).positions());
  }
  Tensor unrotated(const Tensor& x) const { return x; }
  Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value) const {
    block_.cache_rows(key, value, rows_);
    return block_.attention(query, wanted_rows_);
  }
  Tensor swiglu(const Tensor& gate, const Tensor& up) const { return row_swiglu(gate, up); }
  Tensor add(const Tensor& x, const Tensor& y) const { return row_add(x, y); }
  Tensor joined(const Tensor& x, const Tensor& y) const { return at::cat({x, y}, 1); }
  const Tensor& gathered(const Tensor& x) const { return x; }
  Tensor wanted(const Tensor& x) const { return wanted_.size(0) == rows_.size() ? x : x.index_select(0, wanted_); }

 private:
  CachedBlock& block_;
  const TextRows& rows_;
  TextRows wanted_rows_;
  Tensor wanted_;  ///< indices into rows_, ascending
  const Tensor& rotary_;
};

void TextRows::append(int64_t text, int64_t begin, int64_t n) {
  for (int64_t i = 0; i < n; ++i) places_.push_back({text, begin + i});
}

std::vector<int64_t> TextRows::positions() const {
  std::vector<int64_t> positions;
  for (const TextPosition& place : places_) positions.push_back(place.position);
  return positions;
}

TextRows TextRows::only(const std::vector<int64_t>& indices) const {
  TextRows rows;
  for (const int64_t index : indices) rows.places_.push_back(places_[size_t(index)]);
  return rows;
}

CachedBlock::CachedBlock(const ModelConfig& model, const std::string& name,
                         const std::function<Tensor(const std::string&)>& find, const KvPageTable& pages)
    : model_(model), name_(name), head_dim_(head_dim(model)), pages_(pages) {
  for (const BlockLayer& layer : block_layers(model, name)) {
    const std::string full_name = name + "." + std::string(layer.name);
    Weights& weights = weights_[layer.layer];
    weights.weight = find(full_name + ".weight");
    if (layer.has_bias) weights.bias = find(full_name + ".bias");
  }
  keys_ = at::zeros({pages.count(), model_.kv_heads, head_dim_, keys_per_panel}, at::kFloat);
  values_ = at::zeros({pages.count(), model_.kv_heads, keys_per_panel, head_dim_}, at::kFloat);
}

void CachedBlock::cache_rows(const Tensor& key, const Tensor& value, const TextRows& rows) const {
  const int64_t heads = model_.kv_heads;
  for_each_row(rows.size(), [&](int64_t i) {
    for (int64_t k = 0; k < heads; ++k) {
      const int64_t position = rows[i].position, place = position % keys_per_panel, from = (i * heads + k) * head_dim_;
      const int64_t page = pages_.pages(rows[i].text)[size_t(position / keys_per_panel)];
      const int64_t to = (page * heads + k) * head_dim_ * keys_per_panel;
      float* const keys = out<float>(keys_) + to + place;
      const float* const one = in<float>(key) + from;
      for (int64_t d = 0; d < head_dim_; ++d) keys[d * keys_per_panel] = one[d];
      std::copy_n(in<float>(value) + from, head_dim_, out<float>(values_) + to + place * head_dim_);
    }
  });
}

void CachedBlock::copy_page(int64_t from, int64_t to) {
  for (const Tensor& cache : {keys_, values_}) cache[to].copy_(cache[from]);
}

/// query [n,H*W] at the places of `rows` -> [n,H*W]. The attention of model/torch/attention.hpp, one query and head at
/// a time. All rows of a head follow one another, because they may share pages.
Tensor CachedBlock::attention(const Tensor& query, const TextRows& rows) const {
  Tensor mixed = at::empty_like(query);
  const int64_t n = rows.size(), page_floats = head_dim_ * keys_per_panel, stride = model_.kv_heads * page_floats;
  int64_t most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, rows[i].position + 1);
  const float scale = 1.0f / std::sqrt(float(head_dim_));
  const int64_t grain = std::max<int64_t>(1, multiplications_per_task / (2 * most * head_dim_));
  at::parallel_for(0, model_.heads * n, grain, [&](int64_t begin, int64_t end) {
    const kernels::Products& products = kernels::products();
    std::vector<float> scores(size_t(round_up(most, keys_per_panel) + softmax_multiple));
    for (int64_t task = begin; task < end; ++task) {
      const int64_t head = task / n, row = task % n, query_offset = (row * model_.heads + head) * head_dim_;
      const int64_t head_offset = head / (model_.heads / model_.kv_heads) * page_floats;
      const int64_t after = rows[row].position + 1;
      const int64_t count = model_.sliding_window > 0 ? std::min(after, model_.sliding_window) : after;
      const int64_t first = after - count;
      const int64_t* numbers = pages_.pages(rows[row].text).data();
      products.score(in<float>(query) + query_offset, {in<float>(keys_) + head_offset, numbers, stride}, head_dim_,
                     first, after, scores.data());
      kernels::rows<float>().causal_softmax(scores.data() + first, scale, count, round_up(count, softmax_multiple));
      products.mix(scores.data(), {in<float>(values_) + head_offset, numbers, stride}, head_dim_, first, after,
                   out<float>(mixed) + query_offset);
    }
  });
  return mixed;
}

Tensor CachedBlock::run(const Tensor& x, const TextRows& rows, const std::vector<int64_t>& wanted, const Tensor& rotary,
                        const Tensor& embedded) {
  const CachedMath math(*this, rows, wanted, rotary);
  return block_forward(math, model_, name_, embedded.defined() ? chained_input(math, x, embedded) : x);
}

CachedModel::CachedModel(ShardedModel& model, int64_t positions, int64_t texts, at::ScalarType weights)
    : positions_(positions),
      lengths_(size_t(texts), 0),
      pages_(texts, positions),
      is_chained_(has_chained_heads(model.config()) && model.num_heads() > 1),
      eps_(model.config().norm_eps),
      rotary_(model.rotary().contiguous()),
      offsets_(model.config().future_offsets),
      read_again_(is_chained_ ? model.num_heads() - 2 : most_drafts(offsets_, model.num_heads()) - 1) {
  for (const auto& unit : model.units()) weights_.push_back(std::make_unique<GatherScope>(*unit));
  const ModelConfig& config = model.config();
  const bool copies = weights != at::kFloat;
  std::map<std::string, Tensor> found;  // once, though shared heads ask for theirs again
  const auto find = [&](const std::string& name) {
    Tensor& weight = found[name];
    if (weight.defined()) return weight;
    weight = model.weight(name).weight();
    if (copies) weight = weight.dim() == 2 ? weight.to(weights) : weight.clone();
    return weight;
  };
  embedding_ = find("tok_embeddings.weight");
  norm_ = scaled(find("norm.weight"), logit_factor(config));
  output_ = config.tie_word_embeddings ? embedding_ : find("output.weight");
  for (int64_t i = 0; i < num_trunk_blocks(config); ++i) trunk_.emplace_back(config, trunk_block_name(i), find, pages_);
  for (int64_t k = 1; k <= model.num_heads(); ++k)
    heads_.emplace_back(config, head_block_name(config, k), find, pages_);
  if (copies) weights_.clear();
}

Tensor CachedModel::output_logits(const Tensor& hidden) const {
  return row_products(row_norms(hidden, norm_, eps_), output_);
}

Tensor CachedModel::embedded(const std::vector<int64_t>& ids) const {
  return embedding_.index_select(0, at::tensor(ids, at::kLong)).to(at::kFloat);
}

void CachedModel::extend(int64_t text, int64_t n) {
  int64_t& length = lengths_[size_t(text)];
  if (n < 1 || length + n > positions_)
    throw Error(ExitStatus::bug, "decode: " + std::to_string(n) + " tokens after " + std::to_string(length) + " of " +
                                     std::to_string(positions_));
  for (const auto& [from, to] : pages_.make_writable(text, length, length + n))
    for (std::vector<CachedBlock>* blocks : {&trunk_, &heads_})
      for (CachedBlock& block : *blocks) block.copy_page(from, to);
  length += n;
}

Tensor CachedModel::feed(const std::vector<int64_t>& ids, Logits logits) {
  const auto n = int64_t(ids.size());
  const int64_t before = length();
  extend(0, n);
  const TextRows rows(0, before, n);
  Tensor h = embedded(ids);
  for (CachedBlock& block : trunk_) h = block.run(h, rows, indices(0, n), rotary_);
  const int64_t first = logits == Logits::all_tokens ? 0 : n - 1;
  const Tensor output = heads_.front().run(h, rows, indices(is_chained_ ? 0 : first, n), rotary_);
  const Tensor& read = is_chained_ ? output : h;
  if (num_heads() > 1) {
    const int64_t unread = std::clamp(proposed_ - read_again_, rows_begin_, before);
    rows_ = unread < before ? at::cat({rows_.narrow(0, unread - rows_begin_, before - unread), read}) : read;
    rows_begin_ = unread;
  }
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  return output_logits(is_chained_ ? output.narrow(0, first, n - first) : output);
}

Tensor CachedModel::feed(const std::vector<Portion>& portions) {
  if (num_heads() > 1) throw Error(ExitStatus::bug, "decode: several texts, but heads that propose for one");
  TextRows rows;
  std::vector<int64_t> ids, last;
  for (const auto& [text, part] : portions) {
    const int64_t before = length(text);
    extend(text, int64_t(part.size()));
    rows.append(text, before, int64_t(part.size()));
    ids.insert(ids.end(), part.begin(), part.end());
    last.push_back(rows.size() - 1);
  }
  Tensor h = embedded(ids);
  for (CachedBlock& block : trunk_) h = block.run(h, rows, indices(0, rows.size()), rotary_);
  return output_logits(heads_.front().run(h, rows, last, rotary_));
}

void CachedModel::shorten(int64_t length, int64_t text) {
  int64_t& now = lengths_[size_t(text)];
  now = std::min(now, length);
  pages_.shorten(text, now);
  if (text > 0) return;
  ids_.resize(size_t(std::min(now, int64_t(ids_.size()))));
  proposed_ = std::min(proposed_, now);
  rows_begin_ = std::min(rows_begin_, now);
}

void CachedModel::copy_text(int64_t from, int64_t to, int64_t length) {
  pages_.share(from, to, length);
  lengths_[size_t(to)] = length;
}

std::vector<int64_t> CachedModel::propose(int64_t next) {
  if (num_heads() == 1) return {};
  const int64_t begin = std::max<int64_t>(0, proposed_ - read_again_);
  if (length() == proposed_ || begin < rows_begin_)
    throw Error(ExitStatus::bug, "decode: the other heads have read " + std::to_string(proposed_) +
                                     " tokens, the rows that they read are kept from " + std::to_string(rows_begin_) +
                                     " to " + std::to_string(length()));
  const Tensor rows = rows_.narrow(0, begin - rows_begin_, length() - begin);
  proposed_ = length();
  return is_chained_ ? propose_in_chain(rows, begin, next) : propose_from(rows, begin);
}

void CachedModel::stop_proposing() {
  rows_ = Tensor();
  rows_begin_ = length();
}

std::vector<int64_t> CachedModel::propose_from(const Tensor& rows, int64_t begin) {
  std::vector<Tensor> hidden;
  const int64_t n = rows.size(0);
  bool can_look_back = true;
  for (size_t k = 1; k < heads_.size(); ++k) {
    const int64_t drafts = num_drafts(offsets_, int64_t(k) + 1);
    const Tensor read =
        heads_[k].run(rows, TextRows(0, begin, n), indices(std::max<int64_t>(0, n - drafts), n), rotary_);
    can_look_back = can_look_back && drafts <= n;
    if (can_look_back) hidden.push_back(read);
  }
  if (hidden.empty()) return {};
  const Tensor logits = output_logits(at::cat(hidden));
  std::vector<int64_t> ids;
  for (int64_t k = 0; k < logits.size(0); ++k) ids.push_back(most_likely(logits[k]));
  return ids;
}

/// Head k reads at each position the token k - 1 positions after it.
std::vector<int64_t> CachedModel::propose_in_chain(Tensor rows, int64_t begin, int64_t next) {
  const int64_t n = rows.size(0);
  std::vector<int64_t> tokens(ids_.begin() + begin, ids_.end()), proposed;
  for (size_t k = 1; k < heads_.size(); ++k) {
    tokens.erase(tokens.begin());
    tokens.push_back(k == 1 ? next : proposed.back());
    rows = heads_[k].run(rows, TextRows(0, begin, n), indices(0, n), rotary_, embedded(tokens));
    proposed.push_back(most_likely(output_logits(rows.narrow(0, n - 1, 1))[0]));
  }
  return proposed;
}

int64_t most_likely(const Tensor& logits) {
  const float* x = in<float>(logits);
  int64_t best = 0;
  for (int64_t i = 0; i < logits.numel(); ++i) {
    if (!std::isfinite(x[i]))
      throw Error(ExitStatus::data, "the model's logit for id " + std::to_string(i) +
                                        " is not finite, so its weights are unusable; check how its run ended");
    if (x[i] > x[best]) best = i;
  }
  return best;
}

}  // namespace wmtp
