#include "train/utilization.hpp"

#include <algorithm>

#include "base/best_rate.hpp"
#include "comm/torch/cuda_backend.hpp"
#include "job/device_peak.hpp"
#include "model/torch/matrix_product.hpp"

namespace wmtp {
namespace {

constexpr double most_on_cpu = 2e9;      // operations per multiplication: 20 ms at 100 GFLOP/s
constexpr double most_on_device = 2e12;  // 3 ms at 700 TFLOP/s

struct Matrices {
  double elements = 0, trained = 0;
};

Matrices count_matrices(const ShardUnit& unit) {
  Matrices all;
  for (const auto& group : unit.groups())
    for (const FlatParameter& placed : group->parameters())
      if (placed.spec.shape.size() == 2 && placed.spec.shape[0] > 1) {
        const auto elements = double(placed.spec.count());  // of the whole, whichever pieces this rank has
        all.elements += elements;
        if (group->trains()) all.trained += elements;
      }
  return all;
}

}  // namespace

StepOperations step_operations(const ShardedModel& model) {
  const BackwardExtent backward = model.backward_extent();
  double per_token = 0, per_key = 0;
  const auto add = [&](const Matrices& matrices, bool differentiated, double uses) {
    per_token += uses * ((differentiated ? 4 : 2) * matrices.elements + 2 * matrices.trained);
  };
  const ModelConfig& shape = model.config();
  const auto add_attention = [&](bool differentiated) {
    per_key += (differentiated ? 12.0 : 4.0) * double(shape.heads * head_dim(shape));
  };
  for (int64_t i = 0; i < model.num_trunk_blocks(); ++i) {
    add(count_matrices(model.unit(trunk_block_name(i))), i >= backward.lowest_block(), 1);
    add_attention(i >= backward.lowest_block());
  }
  for (int64_t k = 1; k <= model.num_heads(); ++k) {
    const bool is_reached = backward.reaches_head(k);
    add(count_matrices(model.unit(head_block_name(model.config(), k))), is_reached, 1);
    add_attention(is_reached);
    add(count_matrices(model.unit("output")), is_reached, 1);
  }
  if (!model.value_heads().empty()) add(count_matrices(model.unit("value_heads")), true, 1);
  if (const ShardUnit* adapter = model.adapter_unit()) add(count_matrices(*adapter), true, 1);
  return {per_token, per_key};
}

double multiplication_rate(const ShardedModel& model, int64_t rows) {
  if (model.compute().device().is_meta()) return 1;
  const int64_t in = model.config().dim, out = model.config().ffn_dim;
  const double per_row = 2.0 * double(in) * double(out);
  const double most = model.compute().device().is_cpu() ? most_on_cpu : most_on_device;
  rows = std::clamp<int64_t>(int64_t(most / per_row), 1, rows);
  // A device multiplies constants faster than numbers that differ.
  const auto matrix = [&](int64_t height) {
    return at::linspace(-1, 1, height * in, model.compute()).view({height, in});
  };
  const at::Tensor x = matrix(rows), weight = matrix(out);
  at::Tensor last;
  return best_rate(
      double(rows) * per_row, [&] { last = product_with_rows(x, weight); },
      [&] { last.select(0, 0).select(0, 0).item<float>(); });  // reading a value waits for the device
}

double peak_rate(const ParallelConfig& parallel, const at::Device& device) {
  if (parallel.peak_tflops > 0) return 1e12 * parallel.peak_tflops;
  return device.is_cuda() ? stated_peak(cuda_backend().current_device().name, parallel.precision) : 0;
}

double Utilization::share_at_rate(double rate, double operations, double seconds) const {
  return operations / (seconds * rate * ranks_);
}

double Utilization::share(double operations, double seconds) {
  if (measured_ == 0) measure();
  const double share = share_at_rate(best_, operations, seconds);
  doubted_ = share > 1 && measured_ < max_measurements;
  return share;
}

void Utilization::measure() {
  best_ = std::max(best_, rate_());
  ++measured_;
}

}  // namespace wmtp
