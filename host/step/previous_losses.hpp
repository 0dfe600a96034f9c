// PreviousLosses: the policy's loss of every token of the training data, by head, when a step last read it. A step
// reads what steps before it wrote, and writes when it has been accepted, so that its weights depend neither on the
// order of its micro-batches nor on a step that was repeated or skipped.
//
// Every rank with the heads holds the whole table, in the memory of its host: with another order of windows in each
// epoch, any rank may read next what another one has computed (decision 0078). A window that a step reads twice, at the
// end of one epoch and at the beginning of the next, has the later loss.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "comm/torch/channels.hpp"
#include "data/torch/batches.hpp"

namespace wmtp {

class PreviousLosses {
 public:
  /// In a checkpoint, among the states of the pipeline.
  static constexpr const char* state_name = "training/previous_losses";
  /// Of a table; not an integer, because it may be more than any memory.
  static double bytes(int64_t windows, int64_t sequence_length, int64_t heads) {
    return double(sizeof(float)) * double(windows) * double(sequence_length) * double(heads);
  }

  /// `windows`: as BatchSource::windows. `device`: of the micro-batches. Error(usage) for unlimited data.
  PreviousLosses(int64_t windows, int64_t sequence_length, int64_t heads, const at::Device& device);

  /// [B,S,H] by source, on the device of the micro-batch: negative if no step has read the window, or for padding.
  at::Tensor of(const MicroBatch& micro);

  /// Forgets what was kept since the last step, or since a first try of this one.
  void begin_step() { kept_.clear(); }
  /// A head's losses [B,S] by source. The micro-batch must live until the step ends.
  void keep(const MicroBatch& micro, int64_t head, const at::Tensor& losses);
  /// Writes what all ranks have kept. [all ranks with the heads, collective]
  void end_step(Channels& channels);

  /// The shape of the table: windows, sequence_length, H.
  const std::vector<int64_t>& shape() const { return shape_; }
  /// fp32, negative where no step has read the window; allocated when it is first asked for, unless it was loaded.
  const at::Tensor& table();
  /// Takes a table of this shape, from a checkpoint.
  void restore(at::Tensor table) { table_ = std::move(table); }

 private:
  struct Kept {
    const MicroBatch* micro;
    at::Tensor losses;  ///< [B,S,H]
  };
  /// A row of a micro-batch of any rank.
  struct Row {
    int64_t sequence, window;
    const float* losses;
    int64_t count;
    bool operator<(const Row& other) const { return sequence < other.sequence; }
  };
  float* row(int64_t window);

  std::vector<int64_t> shape_;
  at::Tensor table_;
  at::Device device_;
  std::vector<Kept> kept_;
};

}  // namespace wmtp
