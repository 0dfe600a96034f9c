#include "engine/plan/planned_batches.hpp"

#include <algorithm>
#include <limits>

namespace wmtp {
namespace {

class PlannedBatches final : public BatchSource {
 public:
  PlannedBatches(int64_t batch_size, int64_t positions, const BatchRequest& request, bool separate)
      : BatchSource(batch_size), positions_(positions), request_(request), separate_(separate) {}

  int64_t count() const override { return std::numeric_limits<int64_t>::max(); }

  MicroBatch fetch(const std::vector<int64_t>& positions, int64_t rank, int64_t world) const override {
    const int64_t B = int64_t(positions.size()) / world, S = positions_;
    MicroBatch micro;
    micro.positions.assign(positions.begin() + rank * B, positions.begin() + (rank + 1) * B);
    micro.windows = micro.positions;
    micro.bins.assign(size_t(B), -1);
    micro.batch = empty_batch(B, S, request_.device);
    micro.targets = at::empty({B, S}, at::TensorOptions(at::kBool).device(request_.device));
    if (separate_) micro.documents = at::empty({B, S}, at::TensorOptions(at::kInt).device(request_.device));
    micro.tokens = micro.answers = B * S;
    micro.keys = B * S * (request_.window > 0 ? std::min(request_.window, S) : S);
    micro.pairs = request_.pairs ? B / 2 : 0;
    for (int64_t k = 1; k <= request_.heads; ++k) micro.counts.push_back(B * std::max<int64_t>(S - k, 0));
    return micro;
  }

 private:
  int64_t positions_;
  BatchRequest request_;
  bool separate_;
};

}  // namespace

std::unique_ptr<BatchSource> planned_batches(int64_t batch_size, int64_t positions, const BatchRequest& request,
                                             bool separate) {
  return std::make_unique<PlannedBatches>(batch_size, positions, request, separate);
}

}  // namespace wmtp
