// Sections: the parts of a model under pipeline parallelism. A section has consecutive trunk blocks; the first also has
// the embedding, the last all heads, the final norm, the output layer and value heads. Heads stay together, because
// weightings see the losses of all heads at once, or of one head after another. Where heads read the embedding, the
// first section and the last hold it, as twins.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "experiment/experiment.hpp"

namespace wmtp {

struct Section {
  int64_t index = 0, count = 1;
  bool is_first() const { return index == 0; }
  bool is_last() const { return num_after() == 0; }
  /// The sections after this one, which is its place in the order of ranks: rank 0 is in the last one.
  int64_t num_after() const { return count - 1 - index; }
};

/// Whether heads read the embedding: as a tied output layer, or for the tokens that chained heads also read.
inline bool heads_read_embedding(const ModelConfig& model, int64_t heads) {
  return (model.tie_word_embeddings && heads > 0) || (has_chained_heads(model) && heads > 1);
}

/// Half open.
struct BlockRange {
  int64_t first = 0, end = 0;
};

/// The trunk blocks of a section, so that sections cost about the same: in elements of matrices, a head costs a block
/// and the output layer. Every section but the last has a block: there must be as many trunk blocks.
inline BlockRange section_blocks(const ModelConfig& model, int64_t token_heads, const Section& section) {
  const int64_t blocks = num_trunk_blocks(model), others = section.count - 1;
  if (others == 0) return {0, blocks};
  const double attention = double(model.dim) * double(head_dim(model)) * double(2 * model.heads + 2 * model.kv_heads);
  const double block = attention + 3.0 * double(model.dim) * double(model.ffn_dim);
  const double heads_cost = double(token_heads) * (block + double(model.vocab_size) * double(model.dim));
  const double share = (double(blocks) * block + heads_cost) / double(section.count);
  const int64_t in_last = std::clamp<int64_t>(std::llround((share - heads_cost) / block), 0, blocks - others);
  const int64_t rest = blocks - in_last, each = rest / others, more = rest % others;
  // Later sections keep fewer micro-batches, so they get the blocks that are left over.
  const auto first_of = [&](int64_t index) { return index * each + std::max<int64_t>(0, index - (others - more)); };
  return section.is_last() ? BlockRange{rest, blocks}
                           : BlockRange{first_of(section.index), first_of(section.index + 1)};
}

}  // namespace wmtp
