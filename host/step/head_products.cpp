#include "step/head_products.hpp"

#include <cmath>

namespace wmtp {
namespace {

using at::Tensor;

std::string pair_name(int64_t j, int64_t k) { return std::to_string(j) + "_" + std::to_string(k); }
std::string product_name(int64_t j, int64_t k) { return "heads/product_" + pair_name(j, k); }

template <class Visit>
void for_each_pair(int64_t heads, Visit visit) {
  for (int64_t j = 1; j <= heads; ++j)
    for (int64_t k = j; k <= heads; ++k) visit(j, k);
}

/// G of gradients [N] in its upper triangle, [H,H] fp64.
Tensor products_of(const std::vector<Tensor>& gradients) {
  const auto H = int64_t(gradients.size()), N = gradients.front().numel();
  const at::TensorOptions fp64 = gradients.front().options().dtype(at::kDouble);
  Tensor products = at::zeros({H, H}, fp64);
  for (int64_t first = 0; first < N; first += elements_in_fp64) {
    const int64_t count = std::min(elements_in_fp64, N - first);
    const Tensor part = at::empty({H, count}, fp64);
    for (int64_t j = 0; j < H; ++j) part[j].copy_(gradients[size_t(j)].narrow(0, first, count));
    for (int64_t j = 0; j < H; ++j) products[j].narrow(0, j, H - j).add_((part.narrow(0, j, H - j) * part[j]).sum(1));
  }
  return products;
}

}  // namespace

void add_empty_head_products(int64_t heads, StepTotals& totals) {
  for_each_pair(heads, [&](int64_t j, int64_t k) { totals.add(product_name(j, k), 0.0); });
}

void add_head_products(const std::vector<Tensor>& gradients, StepTotals& totals) {
  std::vector<int64_t> heads;
  std::vector<Tensor> flat;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    heads.push_back(int64_t(i) + 1);
    flat.push_back(gradients[i].reshape({-1}));
  }
  if (flat.empty()) return;
  const Tensor products = products_of(flat);
  for_each_pair(int64_t(heads.size()), [&](int64_t j, int64_t k) {
    totals.add(product_name(heads[size_t(j - 1)], heads[size_t(k - 1)]), products[j - 1][k - 1]);
  });
}

std::map<std::string, double> head_metrics(int64_t heads, const StepTotals& totals, double scale) {
  std::map<std::string, double> metrics;
  if (!totals.has(product_name(1, 1))) return metrics;
  const auto norm = [&](int64_t k) { return std::sqrt(totals.sum(product_name(k, k))); };
  for_each_pair(heads, [&](int64_t j, int64_t k) {
    if (j == k)
      metrics["heads/norm_" + std::to_string(k)] = norm(k) / scale;
    else if (const double norms = norm(j) * norm(k); norms != 0)
      metrics["heads/cosine_" + pair_name(j, k)] = totals.sum(product_name(j, k)) / norms;
  });
  return metrics;
}

}  // namespace wmtp
