#include "engine/model/product_path.hpp"

#include <algorithm>
#include <set>

#include "engine/model/kernels/onednn_limit.hpp"
#include "engine/model/kernels/rows.hpp"

namespace wmtp {
namespace {

#if defined(__x86_64__)
/// Instruction sets that products may use; each includes the preceding ones.
enum class Instructions { none, avx512, bf16, fp16 };

Instructions of_processor() {
  __builtin_cpu_init();
  if (!kernels::runs(kernels::Isa::avx512)) return Instructions::none;
  if (__builtin_cpu_supports("avx512fp16")) return Instructions::fp16;
  return __builtin_cpu_supports("avx512bf16") || __builtin_cpu_supports("amx-bf16") ? Instructions::bf16
                                                                                    : Instructions::avx512;
}

/// oneDNN's names; it ignores unknown ones.
Instructions limit_of_onednn() {
  const std::string name = kernels::onednn_limit();
  if (std::set<std::string>{"SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2"}.contains(name))
    return Instructions::none;
  if (name == "AVX512_CORE" || name == "AVX512_CORE_VNNI") return Instructions::avx512;
  return name == "AVX512_CORE_BF16" ? Instructions::bf16 : Instructions::fp16;
}

Instructions instructions() {
  static const Instructions both = std::min(of_processor(), limit_of_onednn());
  return both;
}

ProductPath choose(at::ScalarType dtype) {
  if (dtype == at::kFloat && instructions() >= Instructions::avx512) return ProductPath::onednn;
  if (dtype == at::kBFloat16 && instructions() < Instructions::bf16) return ProductPath::widened;
  if (dtype == at::kHalf && instructions() < Instructions::fp16) return ProductPath::widened;
  return ProductPath::aten;
}
#else
ProductPath choose(at::ScalarType) { return ProductPath::aten; }
#endif

}  // namespace

ProductPath product_path(at::ScalarType dtype) { return choose(dtype); }

std::string about_widened_products(at::ScalarType dtype) {
  if (product_path(dtype) != ProductPath::widened) return {};
  const std::string name = dtype == at::kHalf ? "fp16" : "bf16";
  return name + " products are computed in fp32, because oneDNN has no " + name + " instructions on this processor (" +
         (dtype == at::kHalf ? "AVX-512 FP16" : "AVX-512 BF16 or AMX") + "); " + name + " saves memory but no time";
}

}  // namespace wmtp
