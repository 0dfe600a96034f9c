// `state` of a manifest: the small values that a run goes on with, read key by key. Whoever wrote the manifest, what is
// returned here is in range; whether it fits the experiment is for the run to say. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "core/checkpoints/manifest.hpp"

namespace wmtp {

struct SavedState {
  /// Of the loss scale, in fp16 runs.
  struct Scale {
    double scale = 1;  ///< a power of two from 1 on
    int64_t finite_steps = 0;
    int64_t overflows_left = 0;  ///< at most most_overflows_left
  };

  int64_t tokens = 0;
  std::optional<int64_t> drawn;  ///< missing in checkpoints of earlier versions
  std::deque<double> guard_window;
  int64_t skipped_in_a_row = 0;
  std::string base_fingerprint;  ///< of what an adapter stands beside; empty without one
  std::optional<Scale> loss_scale;
  std::map<std::string, int64_t> optimizer_steps;                ///< by parameter group
  std::map<std::string, std::vector<int64_t>> pipeline_tensors;  ///< shapes by name
};

inline constexpr int64_t most_overflows_left = 2;

/// Of a checkpoint for resuming. Error(status) names the key, what was found and what was wanted; `where` begins it.
SavedState saved_state(const Manifest& manifest, const std::string& where, ExitStatus status = ExitStatus::data);

}  // namespace wmtp
