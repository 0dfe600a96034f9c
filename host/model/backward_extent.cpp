#include "model/backward_extent.hpp"

#include <algorithm>

#include "model/model_tensors.hpp"

namespace wmtp {

BackwardExtent::BackwardExtent(const ModelConfig& model, int64_t heads,
                               const std::function<bool(const std::string&)>& trains)
    : trains_embedding_(trains("tok_embeddings")), lowest_block_(trains_embedding_ ? 0 : num_trunk_blocks(model)) {
  for (int64_t i = lowest_block_ - 1; i >= 0; --i)
    if (trains(trunk_block_name(i))) lowest_block_ = i;
  const bool trains_below = trains_embedding_ || lowest_block_ < num_trunk_blocks(model) || trains("norm");
  for (int64_t k = 1; k <= heads; ++k) {
    const bool trains_before = has_chained_heads(model) && k > 1 && heads_.back();
    heads_.push_back(trains_below || trains_before || trains(head_block_name(model, k)));
  }
}

int64_t BackwardExtent::first_head() const { return 1 + (std::ranges::find(heads_, true) - heads_.begin()); }

}  // namespace wmtp
