#include "engine/model/kernels/onednn_limit.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace wmtp::kernels {

std::string onednn_limit() {
  const char* value = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (!value || !*value) value = std::getenv("DNNL_MAX_CPU_ISA");
  std::string name = value ? value : "";
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
}

}  // namespace wmtp::kernels
