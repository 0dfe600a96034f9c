#include "model/kernels/rows.hpp"

namespace wmtp::kernels {

#define WMTP_DECLARE_ISA(isa)          \
  namespace isa {                      \
  extern const Rows<float> float_rows; \
  extern const Rows<Bf16> bf16_rows;   \
  }
#if defined(__x86_64__)
WMTP_DECLARE_ISA(avx512)
WMTP_DECLARE_ISA(avx2)
#endif
WMTP_DECLARE_ISA(generic)

namespace {

enum class Isa { generic, avx2, avx512 };

Isa best_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq"))
    return Isa::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::avx2;
#endif
  return Isa::generic;
}

}  // namespace

#if defined(__x86_64__)
#define WMTP_CHOOSE(table) isa == Isa::avx512 ? avx512::table : isa == Isa::avx2 ? avx2::table : generic::table
#else
#define WMTP_CHOOSE(table) generic::table
#endif

template <>
const Rows<float>& rows<float>() {
  static const Isa isa = best_isa();
  return WMTP_CHOOSE(float_rows);
}
template <>
const Rows<Bf16>& rows<Bf16>() {
  static const Isa isa = best_isa();
  return WMTP_CHOOSE(bf16_rows);
}

}  // namespace wmtp::kernels
