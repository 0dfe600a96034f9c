// What `plan` knows about hardware: memory, measured rates of links, and the rate of products that a published training
// reached.
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "plan/step_cost.hpp"

namespace wmtp {
namespace {

// memory      as on the data sheet, in powers of ten. A driver reports 5 to 9 GiB more, which the CUDA context, NCCL's
//             buffers and fragmentation use.
// bus         bus bandwidth of nccl-tests on 8 devices with NVSwitch: H100 360 GB/s (all_gather_perf, NVIDIA/nccl-tests
//             issue 326, the expected value according to NVIDIA), A100 200 GB/s (all_reduce_perf, issue 149).
// network     one card of 400 Gb/s per H100 or H200: 46 GB/s (NVIDIA/nccl-tests, issue 290: 46 to 48). A100: the host
// of
//             its calibration, 400 Gb/s for 8 devices.
// products    published tokens/s per device, times operations per token (train/utilization.hpp), over the peak:
//   h100      torchtitan, benchmarks/llama3_h100_202412_torchtitan.md: Llama 3.1 8B, FSDP on 8 H100 (500 W)
//             of one host, 2 x 8,192 tokens per device, bf16, selective checkpointing, not compiled:
//             5,762 tokens/s x 57.9 GFLOP
//   a100-80gb fms-fsdp, README.md: Llama 2 7B, hybrid sharding on 128 A100 with 400 Gb/s per host, 2 x 4,096 tokens per
//             device, bf16, no checkpointing: 3,700 tokens/s x 46.1 GFLOP
constexpr Hardware known[] = {
    {"h100", "H100", 80e9, 360e9, 46e9, 0.337},
    {"a100-80gb", "A100", 80e9, 200e9, 6.25e9, 0.546},
    {"h200", "H200", 141e9, 360e9, 46e9, 0},
};

}  // namespace

const Hardware& find_hardware(const std::string& name) {
  std::vector<std::string> names;
  for (const Hardware& one : known) {
    if (name == one.name) return one;
    names.emplace_back(one.name);
  }
  throw Error(ExitStatus::usage, "--on: found " + printable(name) + ", known are " + join_names(names) +
                                     "; without --on, bytes are printed for any hardware");
}

}  // namespace wmtp
