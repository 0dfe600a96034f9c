// The program's CUDA kernels on the null device: functions with the names in host/cuda/kernels/rows.hpp, which take
// precedence over the real ones. Each counts one launch, reports its reads and writes, and computes with the CPU's row
// kernels. tests/unit/cuda compares the real kernels with these.
#define WMTP_ISA null_device
#include <algorithm>
#include <vector>

#include "activity.hpp"
#include "base/random.hpp"
#include "cuda/kernels/rows.hpp"
#include "memory.hpp"
#include "model/torch/kernels/rows_impl.hpp"
#include "order.hpp"
#include "settings.hpp"

namespace null_cuda {
namespace {

using wmtp::cuda::Launch;
using wmtp::cuda::Type;
using wmtp::kernels::Bf16;
namespace rows_of_cpu = wmtp::kernels::null_device;

size_t size_of(Type type) { return type == Type::fp32 ? 4 : 2; }

/// One launch.
class Kernel {
 public:
  Kernel(const char* name, Launch launch) : name_(name), launch_(launch) { count_launch(name); }
  bool computes() const { return settings().computes && !hangs(); }

  template <class T>
  const T* in(const void* address, int64_t count) const {
    return static_cast<const T*>(touch(address, size_t(count) * sizeof(T), false));
  }
  template <class T>
  T* out(void* address, int64_t count) const {
    return static_cast<T*>(touch(address, size_t(count) * sizeof(T), true));
  }

 private:
  void* touch(const void* address, size_t bytes, bool writes) const {
    if (!address) return nullptr;
    access(launch_.stream, address, bytes, writes, name_);
    return shadow(address);
  }

  const char* name_;
  Launch launch_;
};

/// Elements of the device in a type that the CPU's kernels support: fp16 is widened, and rounded again at the end.
template <class T>
class Values {
 public:
  Values(const Kernel& kernel, Type type, const void* address, int64_t count) {
    set(kernel, type, const_cast<void*>(address), count, false);
  }
  Values(const Kernel& kernel, Type type, void* address, int64_t count, bool writes) {
    set(kernel, type, address, count, writes);
  }
  ~Values() {
    if (half_ && writes_)
      for (size_t i = 0; i < widened_.size(); ++i) half_[i] = _Float16(widened_[i]);
  }
  Values(const Values&) = delete;
  operator T*() { return values_; }

 private:
  void set(const Kernel& kernel, Type type, void* address, int64_t count, bool writes) {
    writes_ = writes;
    if (type != Type::fp16) {
      values_ = writes ? kernel.out<T>(address, count) : const_cast<T*>(kernel.in<T>(address, count));
      return;
    }
    half_ = writes ? kernel.out<_Float16>(address, count) : const_cast<_Float16*>(kernel.in<_Float16>(address, count));
    widened_.assign(half_, half_ + (kernel.computes() ? count : 0));
    values_ = reinterpret_cast<T*>(widened_.data());
  }

  T* values_ = nullptr;
  _Float16* half_ = nullptr;
  std::vector<float> widened_;
  bool writes_ = false;
};

/// Calls call.template operator()<T>() with the element type of the CPU's kernels.
template <class Call>
void by_type(Type type, Call call) {
  if (type == Type::bf16)
    call.template operator()<Bf16>();
  else
    call.template operator()<float>();
}

}  // namespace
}  // namespace null_cuda

using namespace null_cuda;

namespace wmtp::cuda {

bool supports_norm(Type type, int64_t width) { return width % int64_t(16 / size_of(type)) == 0; }

void rms_norm(Launch launch, const void* x, const void* weight, float eps, void* y, float* scale, int64_t rows,
              int64_t width) {
  const Kernel kernel("rms_norm", launch);
  by_type(launch.type, [&]<class T>() {
    Values<T> from(kernel, launch.type, x, rows * width), w(kernel, launch.type, weight, width);
    Values<T> to(kernel, launch.type, y, rows * width, true);
    float* scales = kernel.out<float>(scale, rows);
    if (kernel.computes()) rows_of_cpu::rms_norm<T>(from, w, eps, to, scales, rows, width);
  });
}

void rms_norm_backward(Launch launch, const void* dy, const void* x, const void* weight, const float* scale, void* dx,
                       float* dw_parts, int64_t rows, int64_t width) {
  const Kernel kernel("rms_norm_backward", launch);
  by_type(launch.type, [&]<class T>() {
    Values<T> of_y(kernel, launch.type, dy, rows * width), from(kernel, launch.type, x, rows * width);
    Values<T> w(kernel, launch.type, weight, width), of_x(kernel, launch.type, dx, rows * width, true);
    const float* scales = kernel.in<float>(scale, rows);
    float* parts = kernel.out<float>(dw_parts, norm_parts(rows) * width);
    if (!kernel.computes()) return;
    if (parts) std::fill(parts, parts + norm_parts(rows) * width, 0.0f);
    for (int64_t row = 0; row < rows; ++row)
      rows_of_cpu::rms_norm_backward<T>(of_y + row * width, from + row * width, w, scales + row, of_x + row * width,
                                        parts ? parts + row % norm_parts(rows) * width : nullptr, 1, width);
  });
}

void swiglu(Launch launch, const void* gate, const void* up, void* y, int64_t count) {
  const Kernel kernel("swiglu", launch);
  by_type(launch.type, [&]<class T>() {
    Values<T> g(kernel, launch.type, gate, count), u(kernel, launch.type, up, count);
    Values<T> to(kernel, launch.type, y, count, true);
    if (kernel.computes()) rows_of_cpu::swiglu<T>(g, u, to, count);
  });
}

void swiglu_backward(Launch launch, const void* dy, const void* gate, const void* up, void* d_gate, void* d_up,
                     int64_t count) {
  const Kernel kernel("swiglu_backward", launch);
  by_type(launch.type, [&]<class T>() {
    Values<T> of_y(kernel, launch.type, dy, count), g(kernel, launch.type, gate, count);
    Values<T> u(kernel, launch.type, up, count), of_gate(kernel, launch.type, d_gate, count, true);
    Values<T> of_up(kernel, launch.type, d_up, count, true);
    if (kernel.computes()) rows_of_cpu::swiglu_backward<T>(of_y, g, u, of_gate, of_up, count);
  });
}

void rotate(Launch launch, const void* x, const float* table, float direction, void* y, int64_t tokens, int64_t heads,
            int64_t width, int64_t positions) {
  const Kernel kernel("rotate", launch);
  by_type(launch.type, [&]<class T>() {
    Values<T> from(kernel, launch.type, x, tokens * heads * width);
    Values<T> to(kernel, launch.type, y, tokens * heads * width, true);
    const float* angles = kernel.in<float>(table, positions * width);
    if (!kernel.computes()) return;
    for (int64_t token = 0; token < tokens; ++token)
      rows_of_cpu::rotate<T>(from + token * heads * width, angles + token % positions * width, direction,
                             to + token * heads * width, heads, width);
  });
}

void cross_entropy(Launch launch, const void* logits, const int64_t* targets, float* loss, float* log_sum,
                   float* entropy, float* hit, int64_t rows, int64_t width) {
  const Kernel kernel("cross_entropy", launch);
  by_type(launch.type, [&]<class T>() {
    Values<T> from(kernel, launch.type, logits, rows * width);
    const int64_t* of_rows = kernel.in<int64_t>(targets, rows);
    float *losses = kernel.out<float>(loss, rows), *sums = kernel.out<float>(log_sum, rows);
    float *entropies = kernel.out<float>(entropy, rows), *hits = kernel.out<float>(hit, rows);
    if (kernel.computes()) rows_of_cpu::cross_entropy<T>(from, of_rows, losses, sums, entropies, hits, rows, width);
  });
}

void cross_entropy_backward(Launch launch, void* logits, const int64_t* targets, const float* log_sum,
                            const float* coefficient, int64_t rows, int64_t width) {
  const Kernel kernel("cross_entropy_backward", launch);
  by_type(launch.type, [&]<class T>() {
    Values<T> in_place(kernel, launch.type, logits, rows * width, true);
    const int64_t* of_rows = kernel.in<int64_t>(targets, rows);
    const float *sums = kernel.in<float>(log_sum, rows), *factors = kernel.in<float>(coefficient, rows);
    if (kernel.computes()) rows_of_cpu::cross_entropy_backward<T>(in_place, of_rows, sums, factors, rows, width);
  });
}

void sum_of_parts(Launch launch, const void* parts, int num_parts, float* sum, int64_t count) {
  const Kernel kernel("sum_of_parts", launch);
  by_type(launch.type, [&]<class T>() {
    Values<T> from(kernel, launch.type, parts, num_parts * count);
    float* to = kernel.out<float>(sum, count);
    if (!kernel.computes()) return;
    for (int part = 0; part < num_parts; ++part)
      rows_of_cpu::accumulate<T>(to, from + part * count, /*first=*/part == 0, count);
  });
}

void dropout_factors(Launch launch, uint64_t layer, uint64_t step, const int64_t* sequence, int64_t sequences,
                     int64_t before, int64_t per_sequence, int64_t threshold, float kept, void* factors) {
  const Kernel kernel("dropout_factors", launch);
  by_type(launch.type, [&]<class T>() {
    const int64_t* of_rows = kernel.in<int64_t>(sequence, sequences);
    Values<T> to(kernel, launch.type, factors, sequences * per_sequence, true);
    if (!kernel.computes()) return;
    T zero, factor;
    rows_of_cpu::store(zero, 0.0f);
    rows_of_cpu::store(factor, kept);
    for (int64_t i = 0; i < sequences * per_sequence; ++i) {
      const int64_t row = i / per_sequence, at = before + i % per_sequence;
      const PhiloxBlock bits = philox(layer, step << 40 ^ uint64_t(of_rows[row]), uint64_t(at / 4));
      to[i] = int64_t(bits[size_t(at % 4)]) < threshold ? zero : factor;
    }
  });
}

}  // namespace wmtp::cuda
