// CachedModel: a multi-token model that reads texts in portions and caches keys and values, so that each token is
// computed once. Head 1 produces the logits of the next token. The other heads propose the tokens after it, for one
// text: parallel heads from the trunk outputs (model/drafts.hpp), chained heads one after another, each from the output
// of the head before and the token that it proposed. One process, CPU; not thread-safe. All numbers are fp32; with bf16
// weights, each matrix is rounded to bf16, and results are bitwise those of a model with the rounded weights in fp32.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "inference/kv_page_table.hpp"
#include "model/torch/block.hpp"
#include "shard/sharded_model.hpp"

namespace wmtp {

/// Tokens of texts that are read together, one row of features each.
class TextRows {
 public:
  struct TextPosition {
    int64_t text, position;
  };
  /// The n tokens of a text from position `begin` on.
  TextRows(int64_t text, int64_t begin, int64_t n) { append(text, begin, n); }
  TextRows() = default;
  void append(int64_t text, int64_t begin, int64_t n);

  int64_t size() const { return int64_t(places_.size()); }
  const TextPosition& operator[](int64_t row) const { return places_[size_t(row)]; }
  std::vector<int64_t> positions() const;
  /// The rows with these indices.
  TextRows only(const std::vector<int64_t>& indices) const;

 private:
  std::vector<TextPosition> places_;
};

/// A block (model/block.hpp) with a key-value cache for each text and without an adapter, computed row by row, so
/// that a result does not depend on how a text is split into portions, or on other texts.
class CachedBlock {
 public:
  /// Uses the weights returned by `find` without copying: whole, on the CPU, matrices in fp32 or bf16. `pages` must
  /// outlive this object.
  CachedBlock(const ModelConfig& model, const std::string& name,
              const std::function<at::Tensor(const std::string&)>& find, const KvPageTable& pages);

  /// x [n,D]: tokens at the places of `rows`; those before them in the same texts are cached. Caches their keys and
  /// values, replacing previous ones at these positions. Returns the block's output for the rows with the indices
  /// `wanted`, [w,D]. `embedded` [n,D]: only for a chained head's block.
  at::Tensor run(const at::Tensor& x, const TextRows& rows, const std::vector<int64_t>& wanted,
                 const at::Tensor& rotary, const at::Tensor& embedded = {});
  /// After KvPageTable::make_writable.
  void copy_page(int64_t from, int64_t to);

 private:
  void cache_rows(const at::Tensor& key, const at::Tensor& value, const TextRows& rows) const;
  at::Tensor attention(const at::Tensor& query, const TextRows& rows) const;

  friend class CachedMath;
  struct Weights {
    at::Tensor weight, bias;  ///< undefined without a bias
  };
  ModelConfig model_;
  std::string name_;
  int64_t head_dim_;
  std::map<Layer, Weights> weights_;
  const KvPageTable& pages_;
  at::Tensor keys_;    ///< [pages, kv_heads, head_dim, 64]
  at::Tensor values_;  ///< [pages, kv_heads, 64, head_dim]
};

class CachedModel {
 public:
  /// `model` is unsharded and fp32 in this process, has a next-token head and no adapter, and was built for at least
  /// `positions`, the most tokens of a text that this object accepts. With fp32
  /// `weights`, `model` must outlive this object; bf16 weights are copies.
  CachedModel(ShardedModel& model, int64_t positions, int64_t texts = 1, at::ScalarType weights = at::kFloat);
  CachedModel(const CachedModel&) = delete;

  int64_t positions() const { return positions_; }
  int64_t num_heads() const { return int64_t(heads_.size()); }
  int64_t num_texts() const { return int64_t(lengths_.size()); }
  /// Cached tokens of a text.
  int64_t length(int64_t text = 0) const { return lengths_[size_t(text)]; }

  enum class Logits { last_token, all_tokens };
  /// Appends `ids` (at least one) to text 0. Returns head 1's logits after the last of them, [1,V], or after each,
  /// [n,V]: bitwise the same however a text is split. Error(bug) beyond positions().
  at::Tensor feed(const std::vector<int64_t>& ids, Logits logits);
  struct Portion {
    int64_t text;
    std::vector<int64_t> ids;  ///< at least one
  };
  /// Appends to several texts, each named once. Returns head 1's logits after the last token of each portion,
  /// [portions,V]: bitwise those of a text that is read alone. Error(bug) beyond positions(), and with several heads,
  /// which propose for text 0 only.
  at::Tensor feed(const std::vector<Portion>& portions);
  /// Drops the tokens of a text from `length` on.
  void shorten(int64_t length, int64_t text = 0);
  /// Text `to` becomes the first `length` tokens of text `from`. [one head]
  void copy_text(int64_t from, int64_t to, int64_t length);
  /// The drafts of the second, third, … token after the last cached one of text 0, if `next` is the first: the most
  /// likely ones of heads 2, 3, …, which first read all tokens fed since the last proposal. Fewer in a text that is too
  /// short for heads to look back. Error(bug) without such a token, and after stop_proposing().
  std::vector<int64_t> propose(int64_t next);
  /// Drops what the other heads have not read, which every feed would otherwise add to.
  void stop_proposing();

 private:
  std::vector<int64_t> propose_from(const at::Tensor& rows, int64_t begin);
  std::vector<int64_t> propose_in_chain(at::Tensor rows, int64_t begin, int64_t next);
  at::Tensor embedded(const std::vector<int64_t>& ids) const;
  void extend(int64_t text, int64_t n);
  at::Tensor output_logits(const at::Tensor& hidden) const;

  std::vector<std::unique_ptr<GatherScope>> weights_;  ///< before the blocks, which hold views of these
  int64_t positions_;
  std::vector<int64_t> lengths_;  ///< of each text
  KvPageTable pages_;
  bool is_chained_;
  double eps_;
  at::Tensor embedding_, norm_, output_, rotary_;
  std::vector<CachedBlock> trunk_, heads_;
  std::vector<int64_t> ids_;  ///< the cached tokens of text 0
  at::Tensor rows_;           ///< [n,D] read by head 2: outputs of the trunk or, if chained, of head 1
  int64_t rows_begin_ = 0;    ///< position of the first row
  int64_t proposed_ = 0;      ///< number of tokens cached by head 2
  std::vector<int64_t> offsets_;
  /// Positions that the other heads read again: chained heads those at which the last head read a proposal, which may
  /// have been wrong; parallel heads those to which they look back.
  int64_t read_again_;
};

/// The most likely id for logits [V], the lowest in case of ties. Error(data) if a logit is not finite.
int64_t most_likely(const at::Tensor& logits);

}  // namespace wmtp
