// How matrix products of a dtype are computed on this CPU. Depends only on the processor and on oneDNN's limit
// (ONEDNN_MAX_CPU_ISA or DNNL_MAX_CPU_ISA), never on a measurement, so that runs are bitwise reproducible.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>

namespace wmtp {

enum class ProductPath {
  aten,    ///< LibTorch's choice: MKL in fp32, oneDNN in bf16 (but see docs/decisions/0058) and fp16
  onednn,  ///< fp32 with oneDNN, if its newer kernels support the shape (docs/decisions/0021)
  widened  ///< bf16 and fp16 factors are widened to fp32: this processor has no instructions for them, or slow ones
};

/// What the choice depends on; oneDNN's limit hides instructions.
struct ProductInstructions {
  bool avx512 = false, bf16 = false, fp16 = false, tiles = false;  ///< tiles: AMX
  bool is_intel = false;
};
ProductPath product_path(at::ScalarType dtype, const ProductInstructions& has);
/// On this processor.
ProductPath product_path(at::ScalarType dtype);

/// How bf16 products are computed here, and why: "native".
std::string bf16_info();
/// "bf16 products are computed in fp32, ..."; empty if they are not. The reason only if it costs time.
std::string widened_products_notice(at::ScalarType dtype);

}  // namespace wmtp
