// The optimizers: their keys in [optimizer], and what they keep of each parameter that they update.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "base/enum_names.hpp"

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
/// In the order of their kinds.
inline constexpr std::array optimizers{
    OptimizerTraits{OptimizerKind::adamw, "adamw", true, true, std::nullopt, 2, false},
    OptimizerTraits{OptimizerKind::muon, "muon", true, true, 0.95, 2, true},
    OptimizerTraits{OptimizerKind::sgd, "sgd", false, false, 0.9, 1, false},
};

template <>
inline constexpr auto names_of<OptimizerKind> = [] {
  std::array<const char*, optimizers.size()> names{};
  std::ranges::transform(optimizers, names.begin(), &OptimizerTraits::name);
  return names;
}();

constexpr const OptimizerTraits& traits_of(OptimizerKind kind) { return optimizers[size_t(kind)]; }
static_assert(std::ranges::all_of(optimizers, [](const OptimizerTraits& one) { return &one == &traits_of(one.kind); }));

}  // namespace wmtp
