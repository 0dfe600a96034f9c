// The largest shapes accepted from other programs' files: the limits of [model] (experiment/schema_models.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiment/experiment.hpp"

namespace wmtp {

inline constexpr int64_t max_dim = 65536, max_layers = 1024, max_heads = 1024, max_ffn_dim = 1 << 20,
                         max_vocabulary = 1 << 24, max_future_tokens = 64, max_future_offset = 256,
                         max_positions = 1 << 20;

/// Contradictions between attention heads and model width, phrased to follow "wanted "; all sizes must be positive.
inline std::vector<std::string> head_mistakes(const ModelConfig& model) {
  std::vector<std::string> mistakes;
  if (model.head_dim == 0 && model.dim % model.heads != 0)
    mistakes.push_back("a divisor of the width " + std::to_string(model.dim));
  else if (head_dim(model) % 2 != 0)
    mistakes.push_back("heads of even width, found " + std::to_string(head_dim(model)));
  if (model.heads % model.kv_heads != 0)
    mistakes.push_back("a multiple of the " + std::to_string(model.kv_heads) + " heads of keys and values");
  return mistakes;
}

}  // namespace wmtp
