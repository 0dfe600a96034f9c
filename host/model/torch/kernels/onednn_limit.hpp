// The limit that a user sets on oneDNN's instruction sets; ours follow it.
#pragma once

#include <string>

namespace wmtp::kernels {

/// ONEDNN_MAX_CPU_ISA, or else DNNL_MAX_CPU_ISA, in capitals, as oneDNN compares it; "" if neither is set.
std::string onednn_limit();

}  // namespace wmtp::kernels
