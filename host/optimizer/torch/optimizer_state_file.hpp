// OptimizerStateFile: the optimizer's state of this rank (moments, moving average, in 16 bits also masters) on a disk,
// in a temporary file (io/reserved_file.hpp) in place of memory. In memory are three buffers of a block each: while one
// is used, a thread reads the next block, and another one writes the block before. The values are those that memory
// would keep, bit for bit.
//
// On meta tensors there are the buffers and no file, whose bytes are counted (memory/meta_device.hpp).
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "io/reserved_file.hpp"

namespace wmtp {

/// What happens to the blocks that are visited.
enum class BlockAccess {
  read,
  change,
  replace  ///< they are zeros before the visit
};

struct OptimizerStateFileOptions {
  std::filesystem::path folder;
  int64_t block = int64_t{1} << 21;  ///< elements of a shard; a multiple of 64, so that kernels see whole vectors
};

/// Where training computes, and whether blocks are changed there or in host memory.
struct OptimizerStateFileDevice {
  at::Device device;
  bool changes_blocks = true;
};

struct KeptShard {
  int64_t elements;
  int numbers;  ///< kept of each element
};

/// A shard by its index, and how many of its numbers are visited, from the first one.
struct VisitedShard {
  size_t shard;
  int numbers;
};

class OptimizerStateFile {
 public:
  /// All numbers are zeros at first. Error(storage) if the file cannot be created with its whole size.
  OptimizerStateFile(const OptimizerStateFileOptions& options, const std::vector<KeptShard>& shards,
                     const OptimizerStateFileDevice& device);

  /// `kept`: a flat tensor for each number of elements [begin, end) of a shard.
  using Visit = std::function<void(size_t shard, int64_t begin, int64_t end, const std::vector<at::Tensor>& kept)>;
  /// Visits the blocks of `shards` in order; numbers that are not visited are neither read nor written. The tensors are
  /// valid during the call; they are in host memory, or on the device that changes them. After Error(storage), because
  /// the file cannot be read or written, its content is undefined. [any thread; waits for another one's visit]
  void visit(const std::vector<VisitedShard>& shards, BlockAccess access, const Visit& on_block);

 private:
  struct Block {
    size_t shard;
    int64_t begin, end;  ///< elements of the shard
    int64_t place;       ///< of its numbers in the file, in bytes
    int numbers;         ///< of each element
  };

  static int64_t numbers_of(const Block& block);
  static std::vector<at::Tensor> cut(const Block& block, const at::Tensor& numbers);
  void read(const Block& block, const at::Tensor& buffer) const;
  void write(const Block& block, const at::Tensor& buffer) const;
  void change_on_device(const Block& block, const at::Tensor& buffer, const Visit& on_block) const;

  std::mutex visiting_;
  OptimizerStateFileDevice device_;
  std::vector<std::vector<Block>> blocks_;  ///< by shard
  std::unique_ptr<ReservedFile> file_;      ///< null: on meta tensors
  std::array<at::Tensor, 3> buffers_;
};

}  // namespace wmtp
