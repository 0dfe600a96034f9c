#include "inference/sampling.hpp"

#include <algorithm>
#include <cmath>

#include "base/random.hpp"
#include "inference/cached_model.hpp"
#include "model/torch/kernels/tensors.hpp"

namespace wmtp {

std::vector<Candidate> nucleus(const at::Tensor& logits, double temperature, double top_p) {
  const float* x = kernels::in<float>(logits);
  const double highest = x[most_likely(logits)];
  std::vector<Candidate> all;
  double sum = 0;
  for (int64_t i = 0; i < logits.numel(); ++i) {
    all.push_back({i, std::exp((double(x[i]) - highest) / temperature)});
    sum += all.back().probability;
  }
  // A heap instead of a sort: only the few ids that are taken from a large vocabulary need ordering.
  const auto less = [](const Candidate& a, const Candidate& b) {
    return a.probability < b.probability || (a.probability == b.probability && a.id > b.id);
  };
  std::make_heap(all.begin(), all.end(), less);
  std::vector<Candidate> taken;
  double mass = 0;
  while (!all.empty() && all.front().probability > 0 && mass < top_p * sum) {
    std::pop_heap(all.begin(), all.end(), less);
    mass += all.back().probability;
    taken.push_back(all.back());
    all.pop_back();
  }
  for (Candidate& candidate : taken) candidate.probability /= mass;
  return taken;
}

int64_t draw(const at::Tensor& logits, const Sampling& sampling, int64_t position) {
  const uint64_t text = uint64_t{sampling.prompt} << 32 | sampling.sample;
  const PhiloxBlock bits = philox(name_key("generate", sampling.seed), text, uint64_t(position));
  const double point = double(((uint64_t{bits[0]} << 32) | bits[1]) >> 11) * 0x1p-53;  // uniform in [0,1)
  const std::vector<Candidate> candidates = nucleus(logits, sampling.temperature, sampling.top_p);
  double below = 0;
  for (const Candidate& candidate : candidates) {
    below += candidate.probability;
    if (point < below) return candidate.id;
  }
  return candidates.back().id;  // the shares sum to 1 up to rounding
}

}  // namespace wmtp
