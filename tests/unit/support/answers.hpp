// Batches as from records: prompts and answers, padded at the end.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/torch/batches.hpp"

namespace wmtp::test {

/// One sequence: its tokens and the length of its prompt.
struct Answer {
  std::vector<int64_t> tokens;
  int64_t prompt = 0;
  int64_t correct = 1;
  int64_t bin = -1;
};

/// The sequences 0 … B-1, [B,S]; a sequence without tokens is padding. As many windows as sequences.
inline MicroBatch batch_of(const std::vector<Answer>& answers, int64_t S, int64_t heads, bool prompts = false,
                           const std::vector<int64_t>& offsets = {}) {
  const auto B = int64_t(answers.size());
  MicroBatch micro;
  micro.batch = {at::zeros({B, S}, at::kLong),
                 at::zeros({B, S}, at::kByte),
                 {},
                 at::full({B}, -1, at::kLong),
                 at::full({B}, -1, at::kLong)};
  micro.offsets = offsets;
  micro.counts.assign(size_t(heads), 0);
  for (int64_t b = 0; b < B; ++b) {
    const Answer& answer = answers[size_t(b)];
    const auto length = int64_t(answer.tokens.size());
    micro.sequences.push_back(length == 0 ? -1 : b);
    micro.bins.push_back(answer.bin);
    if (length == 0) continue;
    micro.batch.tokens[b].narrow(0, 0, length).copy_(at::tensor(answer.tokens));
    micro.batch.kind[b].narrow(0, 0, length).fill_(2);
    micro.batch.kind[b].narrow(0, 0, answer.prompt).fill_(1);
    micro.batch.correct[b] = answer.correct;
    micro.tokens += length;
    micro.answer_tokens += length - answer.prompt;
  }
  micro.windows = micro.sequences;
  micro.batch.sequence = at::tensor(micro.sequences);
  micro.targets = prompts ? micro.batch.kind.gt(0) : micro.batch.kind.eq(2);
  for (int64_t k = 1; k <= heads; ++k) micro.counts[size_t(k - 1)] = micro.sources(k).sum().item<int64_t>();
  return micro;
}

/// A source that gets each sequence from a function.
class Answers final : public BatchSource {
 public:
  using Sequence = std::function<Answer(int64_t sequence)>;
  Answers(Sequence sequence, int64_t batch_size, int64_t S, int64_t heads, bool prompts = false,
          std::vector<std::string> bins = {}, std::vector<int64_t> offsets = {})
      : BatchSource(batch_size),
        sequence_(std::move(sequence)),
        S_(S),
        heads_(heads),
        prompts_(prompts),
        bins_(std::move(bins)),
        offsets_(std::move(offsets)) {}
  int64_t count() const override { return INT64_MAX; }
  std::vector<std::string> bins() const override { return bins_; }
  MicroBatch fetch(const std::vector<int64_t>& sequences, int64_t rank, int64_t world) const override {
    const size_t B = sequences.size() / size_t(world);
    const std::vector<int64_t> mine(sequences.begin() + int64_t(size_t(rank) * B),
                                    sequences.begin() + int64_t(size_t(rank + 1) * B));
    std::vector<Answer> answers;
    for (const int64_t sequence : mine) answers.push_back(sequence < 0 ? Answer{} : sequence_(sequence));
    MicroBatch micro = batch_of(answers, S_, heads_, prompts_, offsets_);
    micro.sequences = micro.windows = mine;
    micro.batch.sequence = at::tensor(mine);
    return micro;
  }

 private:
  Sequence sequence_;
  int64_t S_, heads_;
  bool prompts_;
  std::vector<std::string> bins_;
  std::vector<int64_t> offsets_;
};

}  // namespace wmtp::test
