#include "step/offloaded_stack.hpp"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <future>
#include <vector>

#include "io/nameless_file.hpp"
#include "io/scratch_folder.hpp"
#include "memory/meta_device.hpp"

namespace wmtp {
namespace {

using at::Tensor;

class StackOnDisk final : public OffloadedStack {
 public:
  explicit StackOnDisk(const std::filesystem::path& folder) : file_(folder, "activations") {}

  void push(Tensor values) override {
    wait_for_copies();
    leaving_ = values.contiguous();
    entries_.push_back({end_, leaving_.sizes().vec(), leaving_.options()});
    start_copy([this, at = end_] { file_.write(at, leaving_.const_data_ptr(), leaving_.nbytes()); });
    end_ += int64_t(leaving_.nbytes());
  }

  void wait_for_copies() override {
    if (copying_.valid()) copying_.get();
    leaving_.reset();
  }

  void prefetch() override {
    wait_for_copies();
    const Entry& last = entries_.back();
    arriving_ = at::empty(last.shape, last.options);
    start_copy([this, at = last.begin] { file_.read(at, arriving_.data_ptr(), arriving_.nbytes()); });
  }

  Tensor pop() override {
    if (!arriving_.defined()) prefetch();
    wait_for_copies();
    end_ = entries_.back().begin;
    entries_.pop_back();
    return std::move(arriving_);
  }

 private:
  struct Entry {
    int64_t begin;
    std::vector<int64_t> shape;
    at::TensorOptions options;
  };

  /// On a thread of its own; wait_for_copies() waits for it and throws its error.
  template <class Copy>
  void start_copy(Copy copy) {
    copying_ = std::async(std::launch::async, std::move(copy));
  }

  const NamelessFile file_;
  std::vector<Entry> entries_;
  int64_t end_ = 0;
  Tensor leaving_, arriving_;
  std::future<void> copying_;  ///< the copy under way; last, because its destructor waits
};

/// All copies run in order on one stream of their own. The training stream waits for them, the host never.
class StackInHostMemory final : public OffloadedStack {
 public:
  explicit StackInHostMemory(const at::Device& device)
      : device_(device), copies_(guard_.getStreamFromGlobalPool(device)) {}

  void push(Tensor values) override {
    wait_for_copies();
    if (depth_ == kept_.size()) kept_.emplace_back();
    Tensor& host = kept_[depth_++];
    if (!host.defined() || host.sizes() != values.sizes() || host.scalar_type() != values.scalar_type())
      host = at::empty(values.sizes(), values.options().device(at::kCPU).pinned_memory(true));
    copy(host, values);
    leaving_ = std::move(values);
  }

  void wait_for_copies() override {
    if (!leaving_.defined()) return;
    copied_.block(guard_.getStream(device_));
    leaving_.reset();
  }

  void prefetch() override {
    wait_for_copies();
    arriving_ = at::empty(kept_[depth_ - 1].sizes(), kept_[depth_ - 1].options().device(device_).pinned_memory(false));
    copy(arriving_, kept_[depth_ - 1]);
  }

  Tensor pop() override {
    if (!arriving_.defined()) prefetch();
    copied_.block(guard_.getStream(device_));
    --depth_;
    return std::move(arriving_);
  }

 private:
  /// After everything that training has launched so far: it may still write `from`, or use the memory that is now `to`.
  void copy(Tensor& to, const Tensor& from) {
    launched_.record(guard_.getStream(device_));
    launched_.block(copies_);
    const c10::StreamGuard here(copies_);
    to.copy_(from, /*non_blocking=*/true);
    copied_.record(copies_);
  }

  c10::impl::VirtualGuardImpl guard_{c10::DeviceType::CUDA};
  at::Device device_;
  c10::Stream copies_;
  c10::Event launched_{c10::DeviceType::CUDA}, copied_{c10::DeviceType::CUDA};
  std::vector<Tensor> kept_;
  size_t depth_ = 0;
  Tensor leaving_, arriving_;
};

/// Of tensors without values.
class MetaStack final : public OffloadedStack {
 public:
  void push(Tensor values) override {
    leaving_ = std::move(values);
    sizes_.push_back(leaving_.sizes().vec());
    if (sizes_.size() > most_) offloaded_bytes().held += int64_t(leaving_.nbytes());
    most_ = std::max(most_, sizes_.size());
    offloaded_bytes().to_host += int64_t(leaving_.nbytes());
    options_ = leaving_.options();
  }
  void wait_for_copies() override { leaving_.reset(); }
  void prefetch() override {
    wait_for_copies();
    arriving_ = at::empty(sizes_.back(), options_);
    offloaded_bytes().to_device += int64_t(arriving_.nbytes());
  }
  Tensor pop() override {
    if (!arriving_.defined()) prefetch();
    sizes_.pop_back();
    return std::move(arriving_);
  }

 private:
  std::vector<std::vector<int64_t>> sizes_;
  size_t most_ = 0;
  at::TensorOptions options_;
  Tensor leaving_, arriving_;
};

}  // namespace

std::unique_ptr<OffloadedStack> make_offloaded_stack(const at::Device& device, const std::filesystem::path& folder) {
  if (device.is_meta()) return std::make_unique<MetaStack>();
  if (device.is_cpu()) return std::make_unique<StackOnDisk>(folder.empty() ? temporary_folder() : folder);
  return std::make_unique<StackInHostMemory>(device);
}

}  // namespace wmtp
