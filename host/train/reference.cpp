#include "train/reference.hpp"

#include "memory/allocator.hpp"
#include "model/ops.hpp"

namespace wmtp {

using at::Tensor;

Reference::Reference(std::unique_ptr<ShardedModel> model, int64_t chunk_tokens)
    : model_(std::move(model)), loss_(model_->weight("output.weight"), chunk_tokens) {}

Tensor Reference::losses(const Batch& batch) {
  const MemoryScope scope(MemoryCategory::activations);
  const at::AutoGradMode grad(false);
  const Pass pass{false, 0, 0, batch.sequence};
  const int64_t B = batch.tokens.size(0), S = batch.tokens.size(1), trunk = model_->num_trunk_blocks();
  const std::string head = head_block_name(model_->config(), 1);
  const auto block_unit = [&](int64_t i) { return &model_->unit(i < trunk ? trunk_block_name(i) : head); };
  Tensor h;
  {
    const Gathered embedding(model_->unit("tok_embeddings"), block_unit(0));
    h = model_->weight("tok_embeddings.weight").weight().index_select(0, batch.tokens.flatten()).view({B, S, -1});
  }
  for (int64_t i = 0; i <= trunk; ++i) {
    const Gathered block(*block_unit(i), i < trunk ? block_unit(i + 1) : &model_->unit("norm"));
    h = (i < trunk ? model_->trunk_block(i) : model_->head_block(1)).forward(h, model_->rotary(), pass);
  }
  const Gathered norm(model_->unit("norm"), &model_->unit("output"));
  h = rms_norm(h, model_->weight("norm.weight"), model_->config().norm_eps);
  const Gathered output(model_->unit("output"));
  Tensor losses = at::zeros({B, S}, h.options().dtype(at::kFloat));
  losses.narrow(1, 0, S - 1)
      .copy_(
          loss_.scores(h.narrow(1, 0, S - 1).reshape({-1, h.size(2)}), batch.tokens.narrow(1, 1, S - 1).reshape({-1}))
              .losses.view({B, S - 1}));
  return losses.mul_(valid_sources(batch.kind.gt(0), 1));
}

}  // namespace wmtp
