// The optimizers: their keys in [optimizer], and what they keep of each parameter that they update.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

namespace wmtp {

enum class OptimizerKind { adamw, muon, sgd };

struct OptimizerTraits {
  OptimizerKind kind;
  const char* name;                ///< as in the file
  bool has_betas, has_eps;         ///< keys
  std::optional<double> momentum;  ///< default of the key; nullopt: has none
  int averages;                    ///< kept of each parameter: 1: of its gradients, 2: also of their squares
  bool orthogonalizes;             ///< the matrices of blocks, of which it keeps one average
};
inline constexpr std::array optimizers{
    OptimizerTraits{OptimizerKind::adamw, "adamw", true, true, std::nullopt, 2, false},
    OptimizerTraits{OptimizerKind::muon, "muon", true, true, 0.95, 2, true},
    OptimizerTraits{OptimizerKind::sgd, "sgd", false, false, 0.9, 1, false},
};

constexpr const OptimizerTraits& traits_of(OptimizerKind kind) {
  return *std::ranges::find(optimizers, kind, &OptimizerTraits::kind);
}
constexpr const char* to_string(OptimizerKind kind) { return traits_of(kind).name; }

}  // namespace wmtp
