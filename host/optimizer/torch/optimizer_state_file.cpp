#include "optimizer/torch/optimizer_state_file.hpp"

#include <algorithm>
#include <future>

#include "base/round_up.hpp"
#include "memory/allocator.hpp"
#include "memory/meta_device.hpp"

namespace wmtp {
namespace {

using at::Tensor;

constexpr int64_t number_bytes = sizeof(float), numbers_aligned = ReservedFile::alignment / number_bytes;

/// In host memory, where transfers can begin; pinned for a CUDA device.
Tensor aligned_buffer(int64_t numbers, const at::Device& device) {
  const int64_t size = numbers + numbers_aligned;
  if (device.is_meta())
    return is_cuda(device) ? host_zeros(size, at::kFloat, device)
                           : at::empty({size}, at::TensorOptions(at::kFloat).device(device));
  const Tensor whole = host_zeros(size, at::kFloat, device);
  const auto address = int64_t(reinterpret_cast<uintptr_t>(whole.const_data_ptr()));
  return whole.narrow(0, (round_up(address, ReservedFile::alignment) - address) / number_bytes, numbers);
}

void wait_for(std::future<void>& transfer) {
  if (transfer.valid()) transfer.get();
}

}  // namespace

OptimizerStateFile::OptimizerStateFile(const OptimizerStateFileOptions& options, const std::vector<KeptShard>& shards,
                                       const OptimizerStateFileDevice& device)
    : device_(device) {
  int64_t bytes = 0, largest = 0;
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    std::vector<Block>& blocks = blocks_.emplace_back();
    const auto [elements, kept] = shards[shard];
    for (int64_t begin = 0; begin < elements; begin += options.block) {
      blocks.push_back({shard, begin, std::min(begin + options.block, elements), bytes, kept});
      const int64_t numbers = numbers_of(blocks.back());
      bytes += number_bytes * numbers;
      largest = std::max(largest, numbers);
    }
  }
  if (device.device.is_meta())
    offloaded_bytes().in_file += bytes;
  else
    file_ = std::make_unique<ReservedFile>(options.folder, "the optimizer's state", bytes);
  for (Tensor& buffer : buffers_) buffer = aligned_buffer(largest, device.device);
}

/// With the gaps after which the next tensor's numbers begin at a multiple of the alignment.
int64_t OptimizerStateFile::numbers_of(const Block& block) {
  return block.numbers * round_up(block.end - block.begin, numbers_aligned);
}

std::vector<Tensor> OptimizerStateFile::cut(const Block& block, const Tensor& numbers) {
  const int64_t size = block.end - block.begin;
  std::vector<Tensor> kept;
  for (int i = 0; i < block.numbers; ++i) kept.push_back(numbers.narrow(0, i * round_up(size, numbers_aligned), size));
  return kept;
}

void OptimizerStateFile::read(const Block& block, const Tensor& buffer) const {
  const int64_t bytes = number_bytes * numbers_of(block);
  if (file_)
    file_->read(block.place, buffer.mutable_data_ptr(), size_t(bytes));
  else
    offloaded_bytes().from_file += bytes;
}

void OptimizerStateFile::write(const Block& block, const Tensor& buffer) const {
  const int64_t bytes = number_bytes * numbers_of(block);
  if (file_)
    file_->write(block.place, buffer.const_data_ptr(), size_t(bytes));
  else
    offloaded_bytes().to_file += bytes;
}

void OptimizerStateFile::change_on_device(const Block& block, const Tensor& buffer, const Visit& on_block) const {
  const MemoryScope scope(MemoryCategory::optimizer);
  Tensor numbers = buffer.narrow(0, 0, numbers_of(block));
  const Tensor there = copied_to_device(numbers, at::TensorOptions(at::kFloat).device(device_.device));
  on_block(block.shard, block.begin, block.end, cut(block, there));
  if (there.is_meta())
    offloaded_bytes().to_host += int64_t(there.nbytes());
  else
    numbers.copy_(there);  // waits for the device
}

void OptimizerStateFile::visit(const std::vector<VisitedShard>& shards, BlockAccess access, const Visit& on_block) {
  const std::lock_guard alone(visiting_);
  std::vector<Block> blocks;
  for (const auto& [shard, numbers] : shards)
    for (Block block : blocks_[shard]) {
      block.numbers = std::min(block.numbers, numbers);
      blocks.push_back(block);
    }
  std::future<void> reading, writing;  // their destructors wait
  const auto start = [&](size_t i, auto transfer) {
    return std::async(file_ ? std::launch::async : std::launch::deferred, transfer, this, std::cref(blocks[i]),
                      std::cref(buffers_[i % buffers_.size()]));
  };
  const auto start_reading = [&](size_t i) {
    if (i < blocks.size() && access != BlockAccess::replace) reading = start(i, &OptimizerStateFile::read);
  };
  start_reading(0);
  for (size_t i = 0; i < blocks.size(); ++i) {
    Tensor& buffer = buffers_[i % buffers_.size()];
    wait_for(reading);
    start_reading(i + 1);  // into the buffer of block i - 2, which has been written
    if (access == BlockAccess::replace) buffer.zero_();
    if (access == BlockAccess::change && device_.changes_blocks && is_cuda(device_.device))
      change_on_device(blocks[i], buffer, on_block);
    else
      on_block(blocks[i].shard, blocks[i].begin, blocks[i].end, cut(blocks[i], buffer));
    wait_for(writing);
    if (access != BlockAccess::read) writing = start(i, &OptimizerStateFile::write);
  }
  wait_for(writing);
}

}  // namespace wmtp
