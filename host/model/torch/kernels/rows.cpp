#include "model/torch/kernels/rows.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <initializer_list>
#include <string>

#include "base/environment.hpp"
#include "model/torch/kernels/attention.hpp"
#include "model/torch/kernels/onednn_limit.hpp"
#include "model/torch/kernels/products.hpp"

namespace wmtp::kernels {

#define WMTP_DECLARE_ISA(isa)                    \
  namespace isa {                                \
  extern const RowKernelTable<float> float_rows; \
  extern const RowKernelTable<Bf16> bf16_rows;   \
  extern const Products products_table;          \
  extern const Attention<float> float_attention; \
  extern const Attention<Bf16> bf16_attention;   \
  }
#if defined(__x86_64__)
WMTP_DECLARE_ISA(amx)
WMTP_DECLARE_ISA(avx512)
WMTP_DECLARE_ISA(avx2)
#endif
WMTP_DECLARE_ISA(generic)

namespace {

#if defined(__x86_64__)
/// Linux saves the registers of tiles only for a process that has asked for them; its threads and forks inherit that.
bool may_use_tiles() {
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool granted = syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  return granted;
}

#endif

/// The limit that a user has set for LibTorch or oneDNN applies to these kernels, too. Both ignore unknown names.
Isa limit() {
  const std::string aten = environment_value("ATEN_CPU_CAPABILITY"), onednn = onednn_limit();
  if (aten == "default" || onednn == "SSE41" || onednn == "AVX") return Isa::generic;
  if (aten == "avx2" || onednn.starts_with("AVX2")) return Isa::avx2;
  const bool has_512 = onednn.starts_with("AVX512") || onednn.starts_with("AVX10");
  return has_512 && onednn.find("AMX") == onednn.npos ? Isa::avx512 : Isa::amx;
}

}  // namespace

bool runs(Isa isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (isa == Isa::amx)
    return runs(Isa::avx512) && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("amx-bf16") &&
           may_use_tiles();
  if (isa == Isa::avx512)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (isa == Isa::avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
  return isa == Isa::generic;
}

#if defined(__x86_64__)
#define WMTP_CHOOSE(table) \
  isa == Isa::amx ? amx::table : isa == Isa::avx512 ? avx512::table : isa == Isa::avx2 ? avx2::table : generic::table
#else
#define WMTP_CHOOSE(table) generic::table
#endif

template <>
const RowKernelTable<float>& rows<float>([[maybe_unused]] Isa isa) {
  return WMTP_CHOOSE(float_rows);
}
template <>
const RowKernelTable<Bf16>& rows<Bf16>([[maybe_unused]] Isa isa) {
  return WMTP_CHOOSE(bf16_rows);
}
template <>
const Attention<float>& attention<float>([[maybe_unused]] Isa isa) {
  return WMTP_CHOOSE(float_attention);
}
template <>
const Attention<Bf16>& attention<Bf16>([[maybe_unused]] Isa isa) {
  return WMTP_CHOOSE(bf16_attention);
}
const Products& products([[maybe_unused]] Isa isa) { return WMTP_CHOOSE(products_table); }

Isa best_isa() {
  static const Isa highest = limit();
  for (const Isa isa : {Isa::amx, Isa::avx512, Isa::avx2})
    if (isa <= highest && runs(isa)) return isa;
  return Isa::generic;
}

const char* name(Isa isa) {
  return isa == Isa::amx ? "AMX" : isa == Isa::avx512 ? "AVX-512" : isa == Isa::avx2 ? "AVX2" : "any processor";
}

template <>
const RowKernelTable<float>& rows<float>() {
  static const RowKernelTable<float>& best = rows<float>(best_isa());
  return best;
}
template <>
const RowKernelTable<Bf16>& rows<Bf16>() {
  static const RowKernelTable<Bf16>& best = rows<Bf16>(best_isa());
  return best;
}
template <>
const Attention<float>& attention<float>() {
  static const Attention<float>& best = attention<float>(best_isa());
  return best;
}
template <>
const Attention<Bf16>& attention<Bf16>() {
  static const Attention<Bf16>& best = attention<Bf16>(best_isa());
  return best;
}
const Products& products() {
  static const Products& best = products(best_isa());
  return best;
}

}  // namespace wmtp::kernels
