// A multi-token model that is given a text in portions: logits of the next token from head 1, and from the other heads,
// which stand on the same output of the trunk, what they take for the tokens after that one. One process, the CPU,
// fp32; not for several threads at once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/inference/cached_block.hpp"
#include "engine/shard/sharded_model.hpp"

namespace wmtp {

class CachedModel {
 public:
  /// `model` outlives this, is held whole by this process in fp32, has a next-token head and no adapter, and was built
  /// for at least `positions`: more are not taken.
  CachedModel(ShardedModel& model, int64_t positions);
  CachedModel(const CachedModel&) = delete;

  int64_t positions() const { return positions_; }
  int64_t num_heads() const { return int64_t(heads_.size()); }
  /// Tokens whose keys and values are known.
  int64_t length() const { return length_; }

  enum class Logits { of_last, of_all };
  /// `ids` (at least one) follow the tokens known so far, and are known from then on. Head 1's logits after the last of
  /// them, [1,V], or after each, [n,V]: the same bits in whatever portions a text is given. Error(bug) beyond
  /// positions().
  at::Tensor feed(const std::vector<int64_t>& ids, Logits logits);
  /// Forgets the tokens from `length` on.
  void shorten(int64_t length);
  /// What heads 2, 3, … hold most likely at the last token known, so for the second, third, … after it. To be asked
  /// after every feed or after none: the other heads read the trunk's output, of which only that of the last feed is
  /// kept. Error(bug) otherwise.
  std::vector<int64_t> propose();

 private:
  at::Tensor logits_of(const at::Tensor& hidden) const;

  std::vector<std::unique_ptr<Gathered>> weights_;  ///< before the blocks, which keep views of them
  int64_t positions_, length_ = 0;
  double eps_;
  at::Tensor embedding_, norm_, output_, rotary_;
  std::vector<CachedBlock> trunk_, heads_;
  at::Tensor trunk_rows_;         ///< [n,D] trunk's output of the last feed
  int64_t trunk_rows_begin_ = 0;  ///< their first position
  int64_t proposed_ = 0;          ///< tokens that the other heads know
};

/// The lowest of the ids whose logit is highest, of logits [V]. Error(data) where one is not finite.
int64_t most_likely(const at::Tensor& logits);

}  // namespace wmtp
