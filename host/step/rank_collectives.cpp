#include "step/rank_collectives.hpp"

#include <limits>

#include "base/error.hpp"

namespace wmtp {
namespace {

using at::Tensor;
enum Operation : int64_t { sum_operation = 1, quantile_operation = 2 };

/// torch.quantile with linear interpolation over the valid elements. The rank q * (n - 1) is computed in fp32, as in
/// torch, so that an element on the threshold falls on the same side.
Tensor quantile_of(const Tensor& values, const Tensor& valid, double q) {
  const Tensor flat = at::where(valid, values, std::numeric_limits<float>::infinity()).flatten();
  const Tensor sorted = std::get<0>(flat.sort());
  const Tensor count = valid.sum();
  const Tensor rank = (count - 1).clamp_min(0).to(at::kFloat) * float(q);
  const Tensor below = rank.floor(), above = rank.ceil();
  const auto at_index = [&](const Tensor& index) { return sorted.index_select(0, index.to(at::kLong).view({1}))[0]; };
  const Tensor value = at::lerp(at_index(below), at_index(above), rank - below);
  return at::where(count > 0, value, std::numeric_limits<float>::quiet_NaN());
}

}  // namespace

void RankCollectives::check_same_call(int64_t operation, const Tensor& values) {
  const Tensor mine =
      at::tensor({operation, values.numel(), int64_t(values.scalar_type()), int64_t(values.is_cpu())}, at::kLong);
  const Tensor all = channels_.all_gather(mine, "comparing a plugin's collective");
  for (int rank = 0; rank < channels_.size(); ++rank)
    if (!all[rank].equal(mine)) {
      const int64_t* other = all[rank].const_data_ptr<int64_t>();
      const auto text = [](const int64_t* call) {
        return std::string(call[0] == sum_operation ? "a sum" : "a quantile") + " of " + std::to_string(call[1]) +
               " numbers (" + c10::toString(at::ScalarType(call[2])) + (call[3] ? ", CPU)" : ", device)");
      };
      throw Error(ExitStatus::plugin,
                  "plugin: ranks call different collectives: rank " + std::to_string(channels_.rank()) + " " +
                      text(mine.const_data_ptr<int64_t>()) + ", rank " + std::to_string(rank) + " " + text(other) +
                      "; every rank must call the same ones, in the same order");
    }
}

Tensor RankCollectives::sum(const Tensor& values) {
  if (channels_.data_ranks() == 1) return values.clone();
  check_same_call(sum_operation, values);
  return channels_.gather_over_data_ranks(values.detach(), "a plugin's sum over ranks").sum(0);
}

Tensor RankCollectives::quantile(const Tensor& values, const Tensor& valid, double q) {
  if (channels_.data_ranks() == 1) return quantile_of(values, valid, q);
  check_same_call(quantile_operation, values);
  const Tensor mine = at::stack({values.detach().flatten(), valid.to(at::kFloat).flatten()});
  const Tensor all = channels_.gather_over_data_ranks(mine, "a plugin's quantile over ranks");
  return quantile_of(all.select(1, 0), all.select(1, 1) > 0.5, q);
}

Tensor RankCollectives::quantile_here(const Tensor& values, const Tensor& valid, double q) {
  return quantile_of(values, valid, q);
}

}  // namespace wmtp
