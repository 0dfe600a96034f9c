#include "train/utilization.hpp"

#include <algorithm>

#include "base/best_rate.hpp"
#include "comm/torch/cuda_backend.hpp"
#include "job/device_peak.hpp"
#include "model/model_tensors.hpp"
#include "model/torch/matrix_product.hpp"

namespace wmtp {
namespace {

constexpr double most_on_cpu = 2e9;      // operations per multiplication: 20 ms at 100 GFLOP/s
constexpr double most_on_device = 2e12;  // 3 ms at 700 TFLOP/s

struct Matrices {
  double elements = 0, trained = 0;
};

/// Of the adapter, the matrices in a block that heads share once for each of these.
Matrices count_matrices(const ShardedModel& model, const std::string& unit) {
  const bool repeats = unit == adapter_unit_name && has_shared_heads(model.config());
  const auto later_heads = double(model.backward_extent().num_heads() - 1);
  Matrices all;
  for (const UnitSpec& one : model.whole()) {
    if (one.name != unit) continue;
    for (const ParameterSpec& spec : one.parameters)
      if (spec.shape.size() == 2 && spec.shape[0] > 1) {
        const double uses = repeats && spec.name.starts_with("extra_heads.") ? later_heads : 1;
        all.elements += uses * double(spec.count());
        if (spec.trains) all.trained += uses * double(spec.count());
      }
  }
  return all;
}

}  // namespace

StepOperations step_operations(const ShardedModel& model) {
  const BackwardExtent backward = model.backward_extent();
  double per_token = 0, per_key = 0;
  const auto add = [&](const std::string& unit, bool differentiated) {
    const Matrices matrices = count_matrices(model, unit);
    per_token += (differentiated ? 4 : 2) * matrices.elements + 2 * matrices.trained;
  };
  const ModelConfig& shape = model.config();
  const auto add_attention = [&](bool differentiated) {
    per_key += (differentiated ? 12.0 : 4.0) * double(shape.heads * head_dim(shape));
  };
  for (int64_t i = 0; i < num_trunk_blocks(shape); ++i) {
    add(trunk_block_name(i), i >= backward.lowest_block());
    add_attention(i >= backward.lowest_block());
  }
  const std::string output = shape.tie_word_embeddings ? "tok_embeddings" : "output";
  for (int64_t k = 1; k <= backward.num_heads(); ++k) {
    const bool is_reached = backward.reaches_head(k);
    add(head_block_name(shape, k), is_reached);
    add_attention(is_reached);
    add(output, is_reached);
  }
  for (const char* unit : {value_heads_unit_name, adapter_unit_name}) add(unit, true);
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
