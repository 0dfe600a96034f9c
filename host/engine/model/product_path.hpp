// How matrix products of a dtype are computed on this CPU. Depends only on the processor and on oneDNN's limit
// (ONEDNN_MAX_CPU_ISA or DNNL_MAX_CPU_ISA), never on a measurement, so that runs are bitwise reproducible.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>

namespace wmtp {

enum class ProductPath {
  aten,    ///< LibTorch's choice: MKL in fp32, oneDNN in bf16 (but see docs/decisions/0058) and fp16
  onednn,  ///< fp32 with oneDNN, if its newer kernels support the shape (docs/decisions/0021)
  widened  ///< bf16 and fp16 factors are widened to fp32: this processor has no instructions for them
};

ProductPath product_path(at::ScalarType dtype);

/// "bf16 products are computed in fp32: ..."; empty if the processor has instructions for the dtype.
std::string about_widened_products(at::ScalarType dtype);

}  // namespace wmtp
