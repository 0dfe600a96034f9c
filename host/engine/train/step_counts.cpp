#include "engine/train/step_counts.hpp"

namespace wmtp {

StepCounts count_over_ranks(const std::vector<MicroBatch>& micros, Channels& channels, const std::string& what,
                            std::vector<double>* also) {
  const size_t heads = micros.front().counts.size();
  std::vector<double> mine(heads + 3, 0.0);
  for (const MicroBatch& micro : micros) {
    for (size_t k = 0; k < heads; ++k) mine[k] += double(micro.counts[k]);
    mine[heads] += double(micro.tokens);
    mine[heads + 1] += double(micro.answers);
    mine[heads + 2] += double(micro.pairs);
  }
  if (also) mine.insert(mine.end(), also->begin(), also->end());
  const at::Tensor all = channels.sum(at::tensor(mine, at::kDouble), what).contiguous();
  const double* sums = all.const_data_ptr<double>();
  if (also) also->assign(sums + heads + 3, sums + mine.size());
  return {{sums, sums + heads}, int64_t(sums[heads]), int64_t(sums[heads + 1]), int64_t(sums[heads + 2])};
}

}  // namespace wmtp
