#include "model/torch/kernels/device_rows.hpp"

#include "memory/meta_device.hpp"

namespace wmtp::kernels {

namespace {
DeviceRowKernels* installed = nullptr;
}  // namespace

void set_device_rows(DeviceRowKernels* rows) { installed = rows; }

DeviceRowKernels* device_rows(const at::Tensor& x) {
  if (!on_cuda(x) || !x.is_contiguous()) return nullptr;
  const at::ScalarType dtype = x.scalar_type();
  return dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf ? installed : nullptr;
}

}  // namespace wmtp::kernels
