#include "data/torch/batches.hpp"

#include <algorithm>

#include "data/torch/batch_rows.hpp"
#include "memory/meta_device.hpp"

namespace wmtp {
namespace {

using at::Tensor;

class WindowBatches final : public BatchSource {
 public:
  WindowBatches(const TokenWindows& windows, WindowOrder order, int64_t batch_size, int64_t sequence_length,
                const BatchRequest& request, std::optional<int64_t> end_of_text)
      : BatchSource(batch_size),
        windows_(windows),
        order_(order),
        sequence_length_(sequence_length),
        request_(request),
        end_of_text_(end_of_text) {}

  int64_t count() const override { return windows_.count(); }

  MicroBatch fetch(const std::vector<int64_t>& sequences, int64_t rank, int64_t world) const override {
    BatchRows rows(sequences, rank, world, sequence_length_, request_, end_of_text_.has_value());
    for (int64_t b = 0; b < rows.count(); ++b) {
      const int64_t sequence = rows.micro().sequences[size_t(b)];
      if (sequence < 0) continue;
      const int64_t window = rows.micro().windows[size_t(b)] = order_.window(sequence);
      windows_.read(window, rows.ids(b));
      add_documents(rows, b);
    }
    return rows.finish();
  }

 private:
  void add_documents(BatchRows& rows, int64_t row) const {
    const int64_t* const ids = rows.ids(row);
    std::fill_n(rows.kinds(row), sequence_length_, answer_kind);
    for (int64_t begin = 0; begin < sequence_length_;) {
      int64_t end = sequence_length_;
      if (end_of_text_) {
        const int64_t* const last = std::find(ids + begin, ids + sequence_length_, *end_of_text_);
        end = std::min(last - ids + 1, sequence_length_);
      }
      rows.add_document(row, begin, end - begin);
      begin = end;
    }
  }

  const TokenWindows& windows_;
  WindowOrder order_;
  int64_t sequence_length_;
  BatchRequest request_;
  std::optional<int64_t> end_of_text_;
};

int64_t kinds_elements(int64_t tokens) { return (tokens + int64_t(sizeof(int64_t)) - 1) / int64_t(sizeof(int64_t)); }

/// [B,S] bytes at the end of a batch in one tensor.
Tensor kinds_in(const Tensor& all, int64_t B, int64_t S) {
  const int64_t kinds = kinds_elements(B * S);
  return all.narrow(0, all.size(0) - kinds, kinds).view(at::kByte).narrow(0, 0, B * S).view({B, S});
}

/// A batch of views: tokens, then the three numbers of each row, then the kinds as bytes.
Batch batch_in(const Tensor& all, int64_t B, int64_t S) {
  const auto of_rows = [&](int64_t i) { return all.narrow(0, B * S + i * B, B); };
  return {all.narrow(0, 0, B * S).view({B, S}), kinds_in(all, B, S), of_rows(0), of_rows(1), of_rows(2)};
}

}  // namespace

MicroBatch BatchSource::training(int64_t first, int64_t rank, int64_t world) const {
  std::vector<int64_t> sequences;
  for (int64_t r = 0; r < world; ++r)
    for (int64_t b = 0; b < batch_size_; ++b) sequences.push_back(sequence_position(first, r, batch_size_, b));
  return fetch(sequences, rank, world);
}

MicroBatch BatchSource::held_out(int64_t first, int64_t end, int64_t rank, int64_t world) const {
  std::vector<int64_t> sequences;
  for (int64_t sequence = first; sequence < first + batch_size_ * world; ++sequence)
    sequences.push_back(sequence < end ? sequence : -1);
  return fetch(sequences, rank, world);
}

std::unique_ptr<BatchSource> window_batches(const TokenWindows& windows, WindowOrder order, int64_t batch_size,
                                            int64_t sequence_length, const BatchRequest& request,
                                            std::optional<int64_t> end_of_text) {
  return std::make_unique<WindowBatches>(windows, order, batch_size, sequence_length, request, end_of_text);
}

Batch empty_batch(int64_t B, int64_t S, const at::Device& device) {
  const at::TensorOptions ids = at::TensorOptions(at::kLong).device(device);
  if (is_cuda(device)) return batch_in(at::empty({B * S + 3 * B + kinds_elements(B * S)}, ids), B, S);
  return {at::empty({B, S}, ids), at::empty({B, S}, ids.dtype(at::kByte)), at::empty({B}, ids), at::empty({B}, ids),
          at::empty({B}, ids)};
}

Batch on_device(const Batch& batch, const at::Device& device) {
  if (device.is_cpu()) return batch;
  const int64_t B = batch.tokens.size(0), S = batch.tokens.size(1), numbers = B * S + 3 * B;
  const Tensor staged = at::empty({numbers + kinds_elements(B * S)}, at::TensorOptions(at::kLong).pinned_memory(true));
  staged.narrow(0, 0, numbers).copy_(at::cat({batch.tokens.flatten(), batch.sequence, batch.correct, batch.partner}));
  kinds_in(staged, B, S).copy_(batch.kind);
  return batch_in(staged.to(device, /*non_blocking=*/true), B, S);
}

Documents documents_in(const Tensor& both, int64_t B, int64_t S) {
  return {both.narrow(0, 0, B * S).view({B, S}), both.narrow(0, B * S, both.numel() - B * S)};
}

Tensor valid_sources(const Tensor& targets, int64_t offset, const Tensor& begins) {
  const int64_t S = targets.size(1), count = S - offset;
  Tensor valid = at::zeros_like(targets);
  if (count <= 0) return valid;
  Tensor sources = valid.narrow(1, 0, count);
  sources.copy_(targets.narrow(1, offset, count));
  if (begins.defined()) sources.logical_and_(begins.narrow(1, offset, count) <= at::arange(count, begins.options()));
  return valid;
}

Tensor MicroBatch::sources_of(int64_t offset) const { return valid_sources(targets, offset, documents.begins); }

}  // namespace wmtp
