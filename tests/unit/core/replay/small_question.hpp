// Questions to the memory plan about models described by hand, without the engine.
#pragma once

#include <algorithm>

#include "core/model/alignment.hpp"
#include "core/model/model_tensors.hpp"
#include "core/replay/memory.hpp"

namespace wmtp::test {

/// The layout of a model all of whose parameters train, like planned_layout in engine/run/describe_layout.hpp.
inline PlannedLayout layout_of(const ModelConfig& model) {
  PlannedLayout layout;
  for (const ModelTensor& tensor : model_tensors(model)) {
    auto unit = std::ranges::find(layout, tensor.unit(), &PlannedUnit::name);
    if (unit == layout.end()) {
      unit = layout.insert(unit, {tensor.unit(), false, {}, {}, {}});
      if (is_of_block(unit->name))
        for (const LayerNames& names : linear_layers) {
          const BlockLayer layer = block_layer(names, model);
          unit->slots.push_back({int(layer.layer), layer.in, layer.out, /*trains=*/true, layer.has_bias, {}});
        }
    }
    int64_t count = 1;
    for (const int64_t size : tensor.shape) count *= size;
    unit->trained.parameters += count;
    unit->trained.elements += round_up(count, alignment);
  }
  return layout;
}

/// On one rank.
inline MemoryQuestion question_of(const ModelConfig& model, int64_t sequences, int64_t positions) {
  MemoryQuestion question;
  question.policy.shape = model;
  question.policy.layout = layout_of(model);
  question.token_heads = model.future_tokens;
  question.sequences = sequences;
  question.positions = positions;
  return question;
}

/// Two blocks of the trunk and two heads; widths that are multiples of 64.
inline MemoryQuestion small_question() {
  ModelConfig m;
  m.dim = 64;
  m.layers = 4;
  m.heads = m.kv_heads = 4;
  m.ffn_dim = 192;
  m.vocab_size = 512;
  m.future_tokens = 2;
  return question_of(m, 4, 128);
}

}  // namespace wmtp::test
