// OffloadedStack: tensors that wait outside the memory in which training computes; the last one in is the first one
// out.
//
// On a CUDA device they are copied to pinned host memory, which is kept for the next step; on the CPU to a temporary
// file without a name, which the kernel removes when the process ends for any reason. Copies run while the caller
// computes: out after push(), back after prefetch(). At most one tensor is being copied out, and one back. Values come
// back bit for bit. [one thread]
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <memory>

namespace wmtp {

class OffloadedStack {
 public:
  virtual ~OffloadedStack() = default;
  /// Starts to copy `values` out; they must not change before the next call. Waits for the copy before.
  virtual void push(at::Tensor values) = 0;
  /// Waits until nothing is being copied out, so that no pushed tensor is in memory.
  virtual void wait_for_copies() = 0;
  /// [not empty, nothing prefetched] Starts to bring the last tensor back.
  virtual void prefetch() = 0;
  /// [not empty] Removes the last tensor.
  virtual at::Tensor pop() = 0;
};

/// For tensors on `device`; on the CPU the file is in `folder` (TMPDIR or /tmp if empty). Error(storage) if it cannot
/// be created, and later if it cannot be written or read.
std::unique_ptr<OffloadedStack> make_offloaded_stack(const at::Device& device, const std::filesystem::path& folder);

}  // namespace wmtp
