// The matrix products of training and generation, each alone: how fast PyTorch and the host compute those of a step,
// what it would save to join products of a block that share a factor, and how much longer a pass over several rows
// takes than over one. Prints tables; products_bench.py starts it and names the processor.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "inference/row_math.hpp"
#include "memory/allocator.hpp"
#include "model/torch/matrix_product.hpp"
#include "model/torch/product_path.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using Clock = std::chrono::steady_clock;
using Run = std::function<void()>;

constexpr int most_rounds = 23, least_rounds = 7, not_counted = 2;
constexpr double enough_seconds = 2;

/// A case of bench.py: the rows of a micro-batch and the model's sizes.
struct Shape {
  const char* name;
  int64_t rows, dim, ffn, vocabulary;
};
constexpr Shape shapes[] = {
    {"nano", 768, 128, 344, 256}, {"small", 1024, 256, 704, 8192}, {"wide", 1024, 512, 1408, 32000}};

double seconds_of(const Run& run) {
  const auto begun = Clock::now();
  run();
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// The median of each; they take turns, so that all have the same conditions.
std::vector<double> medians(const std::vector<Run>& runs) {
  std::vector<std::vector<double>> seconds(runs.size());
  double sum = 0;
  for (int round = 0; round < least_rounds || (round < most_rounds && sum < enough_seconds); ++round)
    for (size_t i = 0; i < runs.size(); ++i) {
      const double taken = seconds_of(runs[i]);
      sum += taken;
      if (round >= not_counted) seconds[i].push_back(taken);
    }
  std::vector<double> found;
  for (const auto& one : seconds) found.push_back(median(one));
  return found;
}

Tensor random(at::IntArrayRef sizes, at::ScalarType dtype) { return at::randn(sizes).to(dtype); }

/// A layer's product and both of its gradients, by PyTorch and by the host; prints GFLOP/s.
void print_layer(const Shape& shape, const char* layer, int64_t from, int64_t to) {
  std::vector<std::vector<double>> by_dtype;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const Tensor x = random({shape.rows, from}, dtype), w = random({to, from}, dtype),
                 dy = random({shape.rows, to}, dtype);
    const Tensor dw = at::empty({to, from}, sums_in_fp32(dy) ? at::kFloat : dtype);
    by_dtype.push_back(
        medians({[&] { at::mm(x, w.t()); }, [&] { product_with_rows(x, w); }, [&] { at::mm(dy, w); },
                 [&] { product(dy, w); }, [&] { at::mm(dy.t(), x); }, [&] { product_into(dw, dy.t(), x); }}));
  }
  const double operations = 2e-9 * double(shape.rows) * double(from) * double(to);
  const char* what[] = {"product", "gradient of x", "gradient of W"};
  for (size_t i = 0; i < std::size(what); ++i) {
    std::printf("| %s, %s, %ld x %ld x %ld, %s |", shape.name, layer, shape.rows, from, to, what[i]);
    for (const auto& seconds : by_dtype)
      std::printf(" %.0f : %.0f |", operations / seconds[2 * i + 1], operations / seconds[2 * i]);
    std::printf("\n");
  }
}

void print_layers() {
  std::printf("\nGFLOP/s, ours : PyTorch's; bf16 products: %s\n\n| product | fp32 | bf16 |\n| --- | --- | --- |\n",
              bf16_info().c_str());
  for (const Shape& shape : shapes) {
    print_layer(shape, "q", shape.dim, shape.dim);
    print_layer(shape, "w1", shape.dim, shape.ffn);
    print_layer(shape, "w2", shape.ffn, shape.dim);
    print_layer(shape, "output", shape.dim, shape.vocabulary);
  }
}

/// The time of one product with `count` weights in one, relative to that of a product with each: forward, and of the
/// gradient of x, whose parts are added.
std::pair<double, double> joined(const Shape& shape, int64_t to, int64_t count, at::ScalarType dtype) {
  const Tensor x = random({shape.rows, shape.dim}, dtype), all = random({count * to, shape.dim}, dtype);
  const Tensor gradients = random({shape.rows, count * to}, dtype);
  std::vector<Tensor> weights, parts;
  for (int64_t i = 0; i < count; ++i) {
    weights.push_back(all.narrow(0, i * to, to).contiguous());
    parts.push_back(gradients.narrow(1, i * to, to).contiguous());
  }
  const auto seconds = medians({[&] { product_with_rows(x, all); },
                                [&] {
                                  for (const Tensor& weight : weights) product_with_rows(x, weight);
                                },
                                [&] { product(gradients, all); },
                                [&] {
                                  Tensor sum = product(parts[0], weights[0]);
                                  for (size_t i = 1; i < parts.size(); ++i) sum += product(parts[i], weights[i]);
                                }});
  return {seconds[0] / seconds[1], seconds[2] / seconds[3]};
}

void print_joined() {
  std::printf("\nTime of one product instead of several : time now\n\n| |");
  std::vector<std::string> rows{"| q, k and v |", "| w1 and w3 |", "| the gradient of x from q, k and v |",
                                "| the gradient of x from w1 and w3 |"};
  for (const Shape& shape : shapes)
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      std::printf(" %s %s |", shape.name, dtype == at::kFloat ? "fp32" : "bf16");
      const auto [qkv, of_qkv] = joined(shape, shape.dim, 3, dtype);
      const auto [gates, of_gates] = joined(shape, shape.ffn, 2, dtype);
      const double ratios[] = {qkv, gates, of_qkv, of_gates};
      for (size_t i = 0; i < rows.size(); ++i) {
        char text[16];
        std::snprintf(text, sizeof text, " %.2f |", ratios[i]);
        rows[i] += text;
      }
    }
  std::printf("\n| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const std::string& row : rows) std::printf("%s\n", row.c_str());
}

/// `count` weights of [to, from], each read once in a pass of generation.
void print_rows(int64_t count, int64_t to, int64_t from) {
  std::vector<Tensor> weights;
  for (int64_t i = 0; i < count; ++i) weights.push_back(random({to, from}, at::kFloat));
  const Tensor x = random({16, from}, at::kFloat);
  std::vector<Run> runs;
  for (const int64_t rows : {1, 4, 8, 16})
    runs.emplace_back([&, rows] {
      for (const Tensor& weight : weights) row_products(x.narrow(0, 0, rows), weight);
    });
  const auto seconds = medians(runs);
  std::printf("| %ld of %ld x %ld | %.0f GB/s |", count, to, from, 4e-9 * double(count * to * from) / seconds[0]);
  for (size_t i = 1; i < seconds.size(); ++i) std::printf(" %.1f |", seconds[i] / seconds[0]);
  std::printf("\n");
}

int run() {
  const c10::AutoGradMode no_grad(false);
  install_allocator();
  at::manual_seed(1);
  print_layers();
  print_joined();
  std::printf(
      "\nA pass of generation over several rows : one row\n\n| weights | one row reads | 4 rows | 8 rows | 16 rows |\n"
      "| --- | --- | --- | --- | --- |\n");
  print_rows(1, 128, 128);
  print_rows(1, 704, 256);
  print_rows(1, 2048, 768);
  print_rows(8, 8192, 1024);
  print_rows(4, 32000, 768);
  return 0;
}

}  // namespace
}  // namespace wmtp

int main() { return wmtp::run(); }
