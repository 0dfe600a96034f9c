#include "plan/hardware.hpp"

#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "job/device_peak.hpp"

namespace wmtp {
namespace {

// memory      as on the data sheet, in powers of ten. A driver reports 5 to 9 GiB more, which the CUDA context and
//             NCCL's buffers use.
// bus         bus bandwidth of nccl-tests on 8 devices with NVSwitch: H100 360 GB/s (all_gather_perf, NVIDIA/nccl-tests
//             issue 326, the expected value according to NVIDIA), A100 200 GB/s (all_reduce_perf, issue 149).
//             Cards without NVSwitch: one direction of PCIe 4.0 x16.
// network     one card of 400 Gb/s per H100 or H200: 46 GB/s (NVIDIA/nccl-tests, issue 290: 46 to 48). A100: the host
//             of its calibration, 400 Gb/s for 8 devices, which is also assumed for the others.
// products    measured or published tokens/s per device, times operations per token (train/utilization.hpp), over the
//             peak:
//   h200      this program on one H200 of 700 W (docs/gpu.md): 1.36 billion parameters, 8 x 2,048 tokens, bf16, no
//             checkpointing: 52,776 tokens/s x 10.18 GFLOP
//   h100      the same chip. The 47 ms of that step of 310 ms that pass over memory take 65 at the 3.0 TB/s that copies
//             reach on an H100, instead of 4.15
//   a100-80gb fms-fsdp, README.md: Llama 2 7B, hybrid sharding on 128 A100 with 400 Gb/s per host, 2 x 4,096 tokens per
//             device, bf16, no checkpointing: 3,700 tokens/s x 46.1 GFLOP
//             An A100 of 40 GB has the chip of a calibrated card, and its share, but slower memory. Others are not
//             calibrated: the lowest share of a calibrated card is assumed, so that a table compares cards on one
//             footing.
constexpr double assumed_share = 0.513;
constexpr Hardware known[] = {
    {"h100", "H100", 80e9, 360e9, 46e9, 0.513, "h200"},
    {"a100-80gb", "A100", 80e9, 200e9, 6.25e9, 0.546, "a100-80gb"},
    {"h200", "H200", 141e9, 360e9, 46e9, 0.543, "h200"},
    {"a100-40gb", "A100", 40e9, 200e9, 6.25e9, 0.546, "a100-80gb"},
    {"l40s", "L40S", 45e9, 31.5e9, 6.25e9, assumed_share, ""},
    {"rtx4090", "RTX 4090", 24e9, 31.5e9, 6.25e9, assumed_share, ""},
};

}  // namespace

std::string known_hardware() {
  std::vector<std::string> names;
  for (const Hardware& one : known) names.emplace_back(one.name);
  return join_names(names);
}

const Hardware& find_hardware(const std::string& name) {
  for (const Hardware& one : known)
    if (name == one.name) return one;
  throw Error(ExitStatus::usage, "--on: found " + printable(name) + ", known are " + known_hardware() +
                                     "; without --on, bytes are printed for any hardware");
}

std::optional<Rates> rates_on(const Hardware& hardware, Precision precision) {
  if (precision == Precision::fp32) return std::nullopt;
  return Rates{stated_peak(hardware.device, precision) * hardware.products, hardware.bus, hardware.network};
}

}  // namespace wmtp
