// Which way matrix products of a dtype are computed on this processor's CPU. It follows from the processor and from the
// limit that oneDNN was given (ONEDNN_MAX_CPU_ISA or DNNL_MAX_CPU_ISA) and is never measured, so that a run gives the same
// bits each time.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>

namespace wmtp {

enum class ProductPath {
  aten,    ///< as LibTorch chooses: MKL in fp32, oneDNN in bf16 and fp16
  onednn,  ///< fp32 by oneDNN, where its newer kernels take the shape (docs/decisions/0021)
  widened  ///< bf16 and fp16 factors become fp32 first: this processor has no instructions for them
};

ProductPath product_path(at::ScalarType dtype);

/// For people: "bf16 products are computed in fp32: ..."; empty where a dtype has instructions of its own.
std::string about_widened_products(at::ScalarType dtype);

}  // namespace wmtp
