#include "engine/plugin_check/random_records.hpp"

#include <algorithm>
#include <limits>

#include "base/philox.hpp"

namespace wmtp {
namespace {

constexpr uint8_t prompt_kind = 1, answer_kind = 2;
constexpr int64_t padded_every = 7;  // a position in so many

class RandomRecords final : public BatchSource {
 public:
  explicit RandomRecords(const RandomRecordsRequest& request) : BatchSource(request.batch_size), request_(request) {}

  int64_t count() const override { return std::numeric_limits<int64_t>::max(); }

  MicroBatch fetch(const std::vector<int64_t>& positions, int64_t rank, int64_t world) const override {
    const int64_t B = int64_t(positions.size()) / world, S = request_.sequence_length;
    MicroBatch micro;
    micro.batch = {at::zeros({B, S}, at::kLong),
                   at::zeros({B, S}, at::kByte),
                   {},
                   at::full({B}, -1, at::kLong),
                   at::full({B}, -1, at::kLong)};
    for (int64_t b = 0; b < B; ++b) {
      const int64_t position = positions[size_t(rank * B + b)];
      const bool padding = position < 0 || (!request_.wanted.pairs && position % padded_every == padded_every - 1);
      micro.positions.push_back(padding ? -1 : position);
      micro.bins.push_back(-1);
      if (!padding) fill_row(position, b, micro);
    }
    micro.windows = micro.positions;
    micro.batch.sequence = at::tensor(micro.positions);
    micro.targets = request_.wanted.prompts ? micro.batch.kind.gt(0) : micro.batch.kind.eq(answer_kind);
    if (request_.wanted.pairs) micro.pairs = B / 2;
    for (int64_t head = 1; head <= request_.wanted.heads; ++head)
      micro.counts.push_back(valid_sources(micro.targets, head).sum().item<int64_t>());
    return micro;
  }

 private:
  uint32_t draw(int64_t position, int64_t what) const { return philox(1, uint64_t(position), uint64_t(what))[0]; }

  void fill_row(int64_t position, int64_t b, MicroBatch& micro) const {
    const int64_t S = request_.sequence_length;
    // The two of a pair answer the same prompt; their answers differ in length.
    const int64_t prompt = request_.targets ? 1 + draw(position / 2, -1) % 4 : draw(position, -1) % 2 == 0 ? S : 1;
    const int64_t answer = request_.targets ? 1 + draw(position, -2) % (S - prompt) : 0;
    for (int64_t s = 0; s < prompt + answer; ++s)
      micro.batch.tokens[b][s] = int64_t(draw(s < prompt ? position / 2 : position, s)) % request_.vocab_size;
    micro.batch.kind[b].narrow(0, 0, prompt).fill_(prompt_kind);
    micro.batch.kind[b].narrow(0, prompt, answer).fill_(answer_kind);
    micro.batch.correct[b] = 1 - position % 2;
    if (request_.wanted.pairs) micro.batch.partner[b] = b ^ 1;
    micro.tokens += prompt + answer;
    micro.answers += answer;
  }

  RandomRecordsRequest request_;
};

}  // namespace

std::unique_ptr<BatchSource> random_records(const RandomRecordsRequest& request) {
  return std::make_unique<RandomRecords>(request);
}

}  // namespace wmtp
