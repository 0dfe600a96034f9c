#include "model/torch/kernels/onednn_limit.hpp"

#include <algorithm>
#include <cctype>

#include "base/environment.hpp"

namespace wmtp::kernels {

std::string onednn_limit() {
  std::string name = environment_value("ONEDNN_MAX_CPU_ISA");
  if (name.empty()) name = environment_value("DNNL_MAX_CPU_ISA");
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
}

}  // namespace wmtp::kernels
