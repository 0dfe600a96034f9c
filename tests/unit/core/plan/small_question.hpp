// Questions to the memory plan about models described by hand, without the engine.
#pragma once

#include "core/model/block.hpp"
#include "core/plan/memory.hpp"

namespace wmtp::test {

inline PlannedUnit unit(const std::string& name, int64_t count, std::vector<PlannedSlot> slots = {}) {
  return {name, false, {count, count}, {}, std::move(slots)};
}

/// Two blocks of the trunk and two heads; widths that are multiples of 64.
inline MemoryQuestion small_question() {
  MemoryQuestion question;
  ModelConfig& m = question.policy.shape;
  m.dim = 64;
  m.layers = 4;
  m.heads = m.kv_heads = 4;
  m.ffn_dim = 192;
  m.vocab_size = 512;
  m.future_tokens = 2;
  std::vector<PlannedSlot> slots;
  for (const LayerNames& names : linear_layers) {
    const BlockLayer layer = block_layer(names, m);
    slots.push_back({int(layer.layer), layer.in, layer.out, /*trains=*/true, layer.has_bias, {}});
  }
  const int64_t block = 4 * 64 * 64 + 3 * 64 * 192 + 2 * 64;
  question.policy.layout = {
      unit("tok_embeddings", 512 * 64), unit("layers.0", block, slots),      unit("layers.1", block, slots),
      unit("layers.2", block, slots),   unit("extra_heads.0", block, slots), unit("norm", 64),
      unit("output", 512 * 64)};
  question.token_heads = 2;
  question.sequences = 4;
  question.positions = 128;
  return question;
}

}  // namespace wmtp::test
