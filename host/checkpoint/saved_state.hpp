// The object `state` of a manifest: the small values that a resumed run needs. All returned values are in range; the
// run checks whether they fit the experiment.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "checkpoint/manifest.hpp"

namespace wmtp {

inline constexpr int64_t max_overflows_left = 2;

/// How far a run is, and how good; absent values are unknown. Checkpoints of earlier versions have none.
struct RunProgress {
  std::optional<double> epoch;       ///< passes over the training data
  std::optional<double> train_loss;  ///< of the last step
  std::optional<double> valid_loss;  ///< of the last validation: head 1's, of a critic its only one
  std::optional<double> best_loss;   ///< the lowest of all validations
  int64_t valid_step = 0;            ///< of the last validation
  bool operator==(const RunProgress&) const = default;
};

struct SavedState {
  /// The loss scale of fp16 runs, as optimizer/loss_scale.hpp begins and changes it.
  struct Scale {
    double scale = 65536;                         ///< a power of two, at least 1
    int64_t finite_steps = 0;                     ///< consecutive
    int64_t overflows_left = max_overflows_left;  ///< until the scale halves
    bool operator==(const Scale&) const = default;
  };

  int64_t tokens = 0;            ///< tokens seen by all ranks, without padding
  std::optional<int64_t> drawn;  ///< absent in checkpoints of earlier versions
  std::deque<double> guard_window;
  int64_t skipped_in_a_row = 0;
  std::string base_fingerprint;  ///< of the adapted model; "" without an adapter
  std::optional<Scale> loss_scale;
  RunProgress results;
  std::map<std::string, int64_t> optimizer_steps;                     ///< by unit of the model
  std::map<std::string, std::vector<int64_t>> pipeline_state_shapes;  ///< by name
};

Json to_json(const SavedState& saved);
/// Reads the state of a checkpoint for resuming. Error(status) starts with `where` and names the key, the found and the
/// expected value.
SavedState saved_state(const Manifest& manifest, const std::string& where, ExitStatus status = ExitStatus::data);

}  // namespace wmtp
