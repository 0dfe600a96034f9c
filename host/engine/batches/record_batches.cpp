#include "engine/batches/record_batches.hpp"

#include <algorithm>

#include "core/records/longest_record.hpp"

namespace wmtp {
namespace {

using at::Tensor;

constexpr uint8_t prompt_kind = 1, answer_kind = 2;

class RecordBatches final : public BatchSource {
 public:
  RecordBatches(const Records& records, RecordDraws draws, RecordOrder order, int64_t batch_size,
                int64_t sequence_length, const BatchRequest& request)
      : BatchSource(batch_size),
        records_(records),
        draws_(std::move(draws)),
        order_(std::move(order)),
        sequence_length_(sequence_length),
        request_(request) {}

  int64_t count() const override {
    int64_t count = 0;
    for (const auto& list : draws_.records) count += int64_t(list.size());
    return count;
  }

  std::vector<std::string> bins() const override { return draws_.bins; }

  MicroBatch fetch(const std::vector<int64_t>& positions, int64_t rank, int64_t world) const override {
    const int64_t B = int64_t(positions.size()) / world;
    std::vector<int64_t> found;
    for (const int64_t position : positions) found.push_back(position < 0 ? -1 : record_at(position));
    const int64_t S = length_of(found);
    MicroBatch micro;
    micro.positions.assign(positions.begin() + rank * B, positions.begin() + (rank + 1) * B);
    micro.windows.assign(found.begin() + rank * B, found.begin() + (rank + 1) * B);
    micro.bins.assign(size_t(B), -1);
    micro.counts.assign(size_t(request_.heads), 0);
    Tensor tokens = at::zeros({B, S}, at::kLong), kind = at::zeros({B, S}, at::kByte);
    Tensor correct = at::full({B}, -1, at::kLong), partner = at::full({B}, -1, at::kLong);
    for (int64_t b = 0; b < B; ++b) {
      const int64_t record = micro.windows[size_t(b)];
      if (record < 0) continue;
      const RecordEntry& entry = records_.entries()[size_t(record)];
      records_.read(record, tokens.mutable_data_ptr<int64_t>() + b * S);
      uint8_t* row = kind.mutable_data_ptr<uint8_t>() + b * S;
      std::fill(row, row + entry.prompt, prompt_kind);
      std::fill(row + entry.prompt, row + entry.length, answer_kind);
      correct.mutable_data_ptr<int64_t>()[b] = entry.correct;
      if (request_.pairs) partner.mutable_data_ptr<int64_t>()[b] = b ^ 1;
      micro.bins[size_t(b)] = bin_of(draws_.ranges, entry.difficulty);
      count_in(entry, micro);
    }
    if (request_.pairs) micro.pairs = std::count_if(micro.windows.begin(), micro.windows.end(), is_record) / 2;
    micro.batch = {tokens.to(request_.device), kind.to(request_.device),
                   at::tensor(micro.positions).to(request_.device), correct.to(request_.device),
                   partner.to(request_.device)};
    micro.targets = request_.prompts ? micro.batch.kind.gt(0) : micro.batch.kind.eq(answer_kind);
    return micro;
  }

 private:
  static bool is_record(int64_t record) { return record >= 0; }

  int64_t record_at(int64_t position) const {
    const RecordPlace place = order_(position / draws_.rows);
    return draws_.records[place.list][size_t(place.index * draws_.rows + position % draws_.rows)];
  }

  int64_t length_of(const std::vector<int64_t>& found) const {
    int64_t longest = request_.heads + 1;  // so that every head has a source
    for (const int64_t record : found)
      if (record >= 0) longest = std::max<int64_t>(longest, records_.entries()[size_t(record)].length);
    return batch_positions(longest, sequence_length_);
  }

  /// Head k's targets: those at position k or later, which have a source k before them.
  void count_in(const RecordEntry& entry, MicroBatch& micro) const {
    micro.tokens += entry.length;
    micro.answers += entry.answer();
    const int64_t first = request_.prompts ? 0 : entry.prompt;
    for (int64_t k = 1; k <= request_.heads; ++k)
      micro.counts[size_t(k - 1)] += std::max<int64_t>(0, entry.length - std::max(first, k));
  }

  const Records& records_;
  RecordDraws draws_;
  RecordOrder order_;
  int64_t sequence_length_;
  BatchRequest request_;
};

}  // namespace

std::unique_ptr<BatchSource> record_batches(const Records& records, RecordDraws draws, RecordOrder order,
                                            int64_t batch_size, int64_t sequence_length, const BatchRequest& request) {
  return std::make_unique<RecordBatches>(records, std::move(draws), std::move(order), batch_size, sequence_length,
                                         request);
}

}  // namespace wmtp
