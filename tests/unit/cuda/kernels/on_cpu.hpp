// Runs CUDA kernels on the CPU: include it before a .cuh file. Each thread of a block is a fiber; blocks run one after
// another. With the sanitizers it finds reads and writes out of bounds, and vectors that are not aligned; by itself
// it finds barriers and shuffles that not all threads reach. A missing barrier changes results with the order of the
// threads.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#define __global__
#define __device__
#define __shared__ static  // blocks do not run at the same time
#define __launch_bounds__(...)

struct __nv_bfloat16 {
  uint16_t bits;
};
struct __half {
  _Float16 value;
};
inline float __bfloat162float(__nv_bfloat16 x) {
  const uint32_t bits = uint32_t(x.bits) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline __nv_bfloat16 __float2bfloat16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  if (std::isnan(x)) return {0x7fff};
  return {uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}
inline float __half2float(__half x) { return float(x.value); }
inline __half __float2half(float x) { return {_Float16(x)}; }
inline float __expf(float x) { return std::exp(x); }

namespace on_cpu {

struct Index {
  unsigned x = 0;
};
inline Index thread_index, block_index, grid_dim;

enum class Order { ascending, descending, shuffled };

class Block {
 public:
  Block(unsigned threads, Order order, std::function<void()> kernel)
      : order_(order), kernel_(std::move(kernel)), fibers_(threads) {
    for (size_t i = 0; i < threads; ++i) start(fibers_[i], stack_of(i));
  }

  /// Until all threads have returned. Each warp runs as far as it can, through its shuffles up to the next barrier,
  /// before another one does.
  void run() {
    const auto returned = [](const Fiber& fiber) { return fiber.state == State::returned; };
    const auto waits = [](const Fiber& fiber) { return fiber.state == State::at_barrier; };
    while (!all_of(0, fibers_.size(), returned)) {
      let_go(0, fibers_.size());
      for (const size_t warp : in_order(fibers_.size() / lanes)) run_warp(warp * lanes);
      if (!all_of(0, fibers_.size(), waits) && !all_of(0, fibers_.size(), returned))
        throw std::logic_error("not all threads reach a barrier or a shuffle");
    }
  }

  void wait_for_block() { yield(State::at_barrier); }

  /// The value that the lane `from` of this warp gives to the same shuffle.
  template <class T>
  T shuffle(T value, unsigned from) {
    Fiber& mine = fibers_[thread_index.x];
    const unsigned round = mine.shuffles++ % 2;  // two slots: a lane may be one shuffle ahead
    std::memcpy(mine.given[round], &value, sizeof value);
    yield(State::at_shuffle);
    T got;
    std::memcpy(&got, fibers_[thread_index.x / lanes * lanes + from].given[round], sizeof got);
    return got;
  }

  static inline Block* current = nullptr;

 private:
  enum class State { ready, at_barrier, at_shuffle, returned };
  struct Fiber {
    ucontext_t context;
    State state = State::ready;
    unsigned shuffles = 0;
    char given[2][8];
  };
  static constexpr size_t stack_bytes = 64 << 10;

  /// The same for each block, because blocks do not run at the same time: to allocate stacks takes most of a short run.
  static char* stack_of(size_t thread) {
    static std::vector<std::unique_ptr<char[]>> stacks;
    while (stacks.size() <= thread) stacks.push_back(std::make_unique<char[]>(stack_bytes));
    return stacks[thread].get();
  }
  void start(Fiber& fiber, char* stack) {
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stack;
    fiber.context.uc_stack.ss_size = stack_bytes;
    fiber.context.uc_link = &scheduler_;
    makecontext(&fiber.context, &Block::enter, 0);
  }
  static void enter() {
    Block* block = current;
    block->kernel_();
    block->fibers_[thread_index.x].state = State::returned;
  }
  void resume(size_t thread) {
    current = this;
    thread_index.x = unsigned(thread);
    swapcontext(&scheduler_, &fibers_[thread].context);
  }
  void yield(State state) {
    const unsigned thread = thread_index.x;
    fibers_[thread].state = state;
    swapcontext(&fibers_[thread].context, &scheduler_);
  }

  template <class Holds>
  bool all_of(size_t begin, size_t end, Holds holds) const {
    return std::all_of(fibers_.begin() + long(begin), fibers_.begin() + long(end), holds);
  }
  void let_go(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) fibers_[i].state = State::ready;
  }
  void run_warp(size_t first) {
    for (;;) {
      for (const size_t lane : in_order(lanes))
        if (fibers_[first + lane].state == State::ready) resume(first + lane);
      if (!all_of(first, first + lanes, [](const Fiber& fiber) { return fiber.state == State::at_shuffle; })) return;
      let_go(first, first + lanes);
    }
  }
  std::vector<size_t> in_order(size_t count) {
    std::vector<size_t> turn(count);
    for (size_t i = 0; i < count; ++i) turn[i] = order_ == Order::descending ? count - 1 - i : i;
    if (order_ == Order::shuffled) std::shuffle(turn.begin(), turn.end(), chance_);
    return turn;
  }

  static constexpr size_t lanes = 32;
  Order order_;
  std::mt19937 chance_{block_index.x};
  std::function<void()> kernel_;
  std::vector<Fiber> fibers_;
  ucontext_t scheduler_;
};

/// kernel<<<blocks, threads>>>(arguments...), its threads in this order between barriers.
template <class Kernel, class... Arguments>
void launch(Order order, unsigned blocks, unsigned threads, Kernel kernel, Arguments... arguments) {
  grid_dim.x = blocks;
  for (block_index.x = 0; block_index.x < blocks; ++block_index.x)
    Block(threads, order, [&] { kernel(arguments...); }).run();
}

}  // namespace on_cpu

#define threadIdx on_cpu::thread_index
#define blockIdx on_cpu::block_index
#define gridDim on_cpu::grid_dim
inline void __syncthreads() { on_cpu::Block::current->wait_for_block(); }
template <class T>
T __shfl_xor_sync(unsigned, T value, int lanes) {
  return on_cpu::Block::current->shuffle(value, threadIdx.x % 32 ^ unsigned(lanes));
}
