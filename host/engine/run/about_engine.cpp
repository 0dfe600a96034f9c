#include "engine/run/about_engine.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "engine/comm/cuda_backend.hpp"
#include "engine/model/product_path.hpp"

namespace wmtp {
namespace {

std::string about_cuda() {
  if (!has_cuda_device()) return "no device on this machine; runs use the CPU";
  try {
    return std::to_string(cuda_backend().num_devices()) + " devices";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

std::string about_engine() {
  const nlohmann::json about{
      {"libtorch", TORCH_VERSION},
      {"cpu", at::get_cpu_capability()},
      {"bf16", product_path(at::kBFloat16) == ProductPath::widened ? "computed in fp32" : "native"},
      {"threads", at::get_num_threads()},
      {"cuda", about_cuda()}};
  return about.dump();
}

}  // namespace wmtp
