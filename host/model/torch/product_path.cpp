#include "model/torch/product_path.hpp"

#include <algorithm>
#include <set>

#include "model/torch/kernels/onednn_limit.hpp"
#include "model/torch/kernels/rows.hpp"

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

const ProductInstructions& instructions() {
  static const ProductInstructions here = [] {
    const Instructions both = std::min(of_processor(), limit_of_onednn());
    return ProductInstructions{both >= Instructions::avx512, both >= Instructions::bf16, both >= Instructions::fp16,
                               kernels::best_isa() == kernels::Isa::amx, bool(__builtin_cpu_is("intel"))};
  }();
  return here;
}
#endif

/// Intel's processors multiply with AVX-512 BF16 at half the rate that AMD's do (docs/decisions/0024).
bool is_slow_in_bf16(const ProductInstructions& has) { return has.is_intel && has.bf16 && !has.tiles; }
constexpr const char* slow_instructions = "AVX-512 BF16 without AMX is slower on Intel's processors";

bool is_widened_for_speed() {
#if defined(__x86_64__)
  return is_slow_in_bf16(instructions());
#else
  return false;
#endif
}

}  // namespace

ProductPath product_path(at::ScalarType dtype, const ProductInstructions& has) {
  if (dtype == at::kFloat && has.avx512) return ProductPath::onednn;
  if (dtype == at::kBFloat16 && (!has.bf16 || is_slow_in_bf16(has))) return ProductPath::widened;
  if (dtype == at::kHalf && !has.fp16) return ProductPath::widened;
  return ProductPath::aten;
}

#if defined(__x86_64__)
ProductPath product_path(at::ScalarType dtype) { return product_path(dtype, instructions()); }
#else
ProductPath product_path(at::ScalarType) { return ProductPath::aten; }
#endif

std::string bf16_info() {
  if (product_path(at::kBFloat16) != ProductPath::widened) return "native";
  return is_widened_for_speed() ? std::string("computed in fp32, because ") + slow_instructions : "computed in fp32";
}

std::string widened_products_notice(at::ScalarType dtype) {
  if (product_path(dtype) != ProductPath::widened) return {};
  const std::string name = dtype == at::kHalf ? "fp16" : "bf16";
  const std::string reason = dtype == at::kBFloat16 && is_widened_for_speed()
                                 ? slow_instructions
                                 : "oneDNN has no " + name + " instructions on this processor (" +
                                       (dtype == at::kHalf ? "AVX-512 FP16" : "AVX-512 BF16 or AMX") + ")";
  return name + " products are computed in fp32, because " + reason + "; " + name + " saves memory but no time";
}

}  // namespace wmtp
