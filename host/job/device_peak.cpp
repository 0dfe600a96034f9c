#include "job/device_peak.hpp"

namespace wmtp {
namespace {

struct KnownDevice {
  const char* part_of_name;
  double half_tflops;  ///< bf16 and fp16 with fp32 sums, without sparsity
  double full_tflops;  ///< fp32
};

/// The first entry whose part occurs in the name counts: variants precede the product that they are a variant of.
constexpr KnownDevice known_devices[] = {
    {"B200", 2250, 75},     {"GH200", 989.4, 66.9},   {"H200", 989.4, 66.9},     {"H100 PCIe", 756, 51.2},
    {"H100 NVL", 835, 60},  {"H100", 989.4, 66.9},    {"A100", 312, 19.5},       {"A40", 149.7, 37.4},
    {"A10G", 70, 31.2},     {"A10", 125, 31.2},       {"L40S", 362, 91.6},       {"L40", 181, 90.5},
    {"L4", 121, 30.3},      {"RTX 5090", 209.5, 105}, {"RTX 4090", 165.2, 82.6}, {"RTX 3090 Ti", 80, 40},
    {"RTX 3090", 71, 35.6},
};

}  // namespace

double stated_peak(const std::string& name, Precision precision) {
  for (const KnownDevice& device : known_devices)
    if (name.find(device.part_of_name) != std::string::npos)
      return 1e12 * (precision == Precision::fp32 ? device.full_tflops : device.half_tflops);
  return 0;
}

}  // namespace wmtp
